"""Descriptions of torch tensors that no sender writes: an error each, and the queue goes on."""

from __future__ import annotations

import random
import struct

import forklift
import pytest
import support
from forklift.multiprocessing import Queue
from torch_support import is_held, torch

NO_LEASE = 0xFFFFFFFF
FLOAT = (2, 32)


def description(
    lease: int = NO_LEASE,
    element: tuple[int, int] = FLOAT,
    flags: int = 0,
    storage: int = 0,
    offset: int = 0,
    shape: tuple[int, ...] = (0,),
    strides: tuple[int, ...] = (1,),
    ndim: int | None = None,
) -> bytes:
    count = len(shape) if ndim is None else ndim
    head = struct.pack("<IBBHQQII", lease, *element, flags, storage, offset, count, 0)
    return head + struct.pack(f"<{len(shape)}q{len(strides)}q", *shape, *strides)


def message(payload: bytes) -> bytes:
    return b"\xc9" + struct.pack(">I", len(payload)) + b"\x08" + payload


WRONG = {
    "nothing": b"",
    "cut": description()[:20],
    "without shape": description(ndim=3),
    "too many dimensions": description(ndim=1 << 31),
    "no memory": description(lease=0, storage=40, shape=(10,)),
    "another lease": description(lease=77, storage=40, shape=(10,)),
    "elements without memory": description(shape=(4,)),
    "a negative length": description(shape=(-1,)),
    "a negative stride": description(lease=0, storage=64, shape=(3,), strides=(-1,)),
    "too long": description(lease=0, storage=16, shape=(5,)),
    "an overflow": description(lease=0, storage=16, shape=(1 << 62, 1 << 62), strides=(1 << 62, 1)),
    "an offset beyond": description(lease=0, storage=16, offset=20, shape=(1,)),
    "an odd offset": description(lease=0, storage=16, offset=3, shape=(1,)),
    "no type": description(element=(0, 0)),
    "half a byte": description(element=(0, 4)),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_description_that_no_sender_writes(name: str) -> None:
    queue = Queue()
    queue._put_raw(3, message(WRONG[name]))
    with pytest.raises(forklift.CorruptError):
        queue.get(timeout=5)
    support.works(queue)


def test_damaged_descriptions_never_harm() -> None:
    rng = random.Random(7)
    queue = Queue()
    good = [
        description(),
        description(element=(6, 8), shape=(0, 3), strides=(3, 1), flags=2),
        description(lease=0, storage=40, shape=(2, 5), strides=(5, 1), flags=1),
    ]
    for _ in range(2_000):
        data = bytearray(message(rng.choice(good)))
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(6, len(data))] = rng.choice((0, 1, 2, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        queue._put_raw(3, bytes(data))
        try:
            queue.get(timeout=5)
        except (forklift.CorruptError, RuntimeError, TypeError, BufferError, OverflowError):
            pass
    support.works(queue)


def test_a_budget_that_is_too_small_moves_nothing(small_budget: int) -> None:
    queue = Queue()
    tensor = torch.ones(small_budget)
    address = tensor.data_ptr()
    with pytest.raises(forklift.OverBudgetError):
        queue.put(tensor, timeout=0.1)
    with pytest.raises(forklift.OverBudgetError):
        queue.put([torch.ones(10), tensor], timeout=0.1)
    assert tensor.data_ptr() == address
    assert not is_held(tensor)
    assert tensor.share_memory_().is_shared()  # torch has memory
    queue.put(tensor[:1_000].clone())
    assert queue.get(timeout=5).sum() == 1_000

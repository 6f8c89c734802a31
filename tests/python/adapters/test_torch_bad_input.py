"""What is wrong with tensors or with where they go: an error each, and the queue goes on."""

from __future__ import annotations

import ctypes
import random
import struct
import sys
import types
from pathlib import Path

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
    begin: int = 0,
) -> bytes:
    count = len(shape) if ndim is None else ndim
    head = struct.pack("<IIBBHIQQII", lease, begin, *element, flags, 0, storage, offset, count, 0)
    return head + struct.pack(f"<{len(shape)}q{len(strides)}q", *shape, *strides)


def message(payload: bytes) -> bytes:
    return b"\xc9" + struct.pack(">I", len(payload)) + b"\x08" + payload


WRONG = {
    "nothing": b"",
    "cut": description()[:20],
    "without shape": description(ndim=3),
    "too many dimensions": description(ndim=1 << 31),
    "no memory": description(lease=0, storage=40, shape=(10,)),
    "memory that begins elsewhere": description(lease=0, storage=40, shape=(10,), begin=0xFFFFFFFF),
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
    "a GPU without memory": description(lease=0, storage=40, shape=(10,), flags=4),
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


def test_a_type_whose_module_is_gone() -> None:
    """The receiver gets the error of the import, and the tensor's memory comes back."""
    module = types.ModuleType("vanishing")
    module.Kind = type("Kind", (torch.Tensor,), {"__module__": "vanishing"})  # type: ignore[attr-defined]
    queue = Queue()
    sys.modules["vanishing"] = module
    try:
        queue.put([torch.ones(10), torch.ones(100_000).as_subclass(module.Kind)])
    finally:
        del sys.modules["vanishing"]
    with pytest.raises(ModuleNotFoundError, match="vanishing"):
        queue.get(timeout=5)
    support.works(queue)


NAMES_ELSEWHERE = """
    import os
    os.environ["FORKLIFT_SHM_DIR"] = FOLDER
    import torch
    import forklift
    from forklift.multiprocessing import SimpleQueue, set_sharing_strategy
    queue = SimpleQueue()
    set_sharing_strategy("file_system")
    tensor = torch.ones(2_000_000)
    for act in (lambda: queue.put(tensor), lambda: queue.put({"a": torch.ones(10), "b": tensor})):
        try:
            act()
        except (OSError, forklift.NoSpaceError) as error:
            assert os.environ["FORKLIFT_SHM_DIR"] in str(error), error
            print(type(error).__name__)
        else:
            print("no error")
    assert not forklift._core._torch.held(tensor.untyped_storage()._cdata, tensor.data_ptr())
    assert not [name for name in os.listdir(ROOT) if name.startswith("torch_")]
    set_sharing_strategy("file_descriptor")
    queue.put(tensor)
    assert queue.get().sum() == 2_000_000
    print("goes on", forklift.audit())
"""


def names_elsewhere(folder: str, root: Path) -> str:
    return NAMES_ELSEWHERE.replace("FOLDER", repr(folder)).replace("ROOT", repr(str(root)))


def test_names_without_a_folder(tmp_path: Path) -> None:
    said = support.run_python(names_elsewhere(f"{tmp_path}/nowhere", tmp_path))
    assert said.split("\n")[:2] == ["FileNotFoundError", "FileNotFoundError"]
    assert "goes on []" in said


@pytest.mark.usefixtures("root_only")
def test_names_in_a_folder_that_is_full(tmp_path: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    mounted = libc.mount(b"none", str(tmp_path).encode(), b"tmpfs", 0, b"size=1m")
    if mounted != 0:
        pytest.skip("may not mount a file system")
    try:
        said = support.run_python(names_elsewhere(str(tmp_path), tmp_path))
    finally:
        assert libc.umount2(str(tmp_path).encode(), 2) == 0
    assert said.split("\n")[:2] == ["NoSpaceError", "NoSpaceError"]
    assert "goes on []" in said

"""torch's CPU tensors through queues: the same memory at both ends, as torch.multiprocessing has it."""

from __future__ import annotations

import copy
import gc
import io
from pathlib import Path
from typing import Any

import forklift
import forklift.multiprocessing as fmp
import numpy as np
import pytest
import torch_targets
from forklift import _core
from torch_support import DEADLINE, finish, is_held, run, torch


def test_this_torch_is_known() -> None:
    assert _core._torch.known()


# --- the same memory


def test_what_the_receiver_writes_the_sender_sees(torch_both: Any) -> None:
    there, back, process = run(torch_both, torch_targets.add_one)
    for tensor in (torch.zeros(5), torch.zeros(3, 1_000), torch.zeros(300_000), torch.tensor(0.0)):
        for turn in (1, 2, 3):
            there.put(tensor)
            assert back.get(timeout=DEADLINE) == "done"
            assert (tensor == turn).all()
    finish(there, back, process)


def test_what_the_sender_writes_later_the_receiver_sees(torch_both: Any) -> None:
    there, back, process = run(torch_both, torch_targets.hold_until)
    tensor = torch.arange(4)
    there.put(tensor)
    assert back.get(timeout=DEADLINE) == [0, 1, 2, 3]
    tensor[2] = 77
    there.put("again")
    assert back.get(timeout=DEADLINE) == [0, 1, 77, 3]
    finish(there, back, process)


def test_all_views_of_the_sender_follow() -> None:
    queue = fmp.Queue()
    base = torch.zeros(100)
    row, flat = base[10:20], base.view(10, 10)
    queue.put(row)
    got = queue.get(timeout=5)
    got.fill_(3)
    assert (flat[1] == 3).all()
    base[10] = 9
    assert got[0] == 9
    assert row.data_ptr() == base.data_ptr() + 40


def test_a_numpy_alias_made_before_the_move_never_dangles() -> None:
    queue = fmp.Queue()
    tensor = torch.arange(50_000)
    alias = tensor.numpy()
    queue.put(tensor)
    queue.get(timeout=5)
    later = tensor.numpy()
    later[0] = 5
    del tensor, later
    gc.collect()
    junk = [torch.full((50_000,), -1) for _ in range(20)]
    assert (alias == np.arange(50_000)).all()
    del junk, alias


def test_the_second_time_is_a_handle() -> None:
    queue = fmp.Queue()
    tensor = torch.ones(1_000_000)
    queue.put(tensor)
    before = forklift.stats()
    queue.put(tensor)
    queue.put(tensor[10:])
    after = forklift.stats()
    assert after["block_bytes"] == before["block_bytes"]
    assert after["blocks"] == before["blocks"]
    for _ in range(3):
        assert queue.get(timeout=5)[0] == 1


@pytest.mark.parametrize("shape", [(0,), (0, 3), (4, 0, 2), (), (1,), (1, 1, 1), (2,) * 12, (7, 1, 5)])
def test_shapes(shape: tuple[int, ...]) -> None:
    queue = fmp.Queue()
    tensor = torch.rand(shape)
    queue.put(tensor)
    got = queue.get(timeout=5)
    assert (got.shape, got.stride(), got.dtype) == (tensor.shape, tensor.stride(), tensor.dtype)
    assert torch.equal(got, tensor)


DTYPES = (
    "bool uint8 int8 int16 uint16 int32 uint32 int64 uint64 float16 bfloat16 float32 float64 complex32 "
    "complex64 complex128 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu"
)


def test_every_dtype(torch_echo: Any) -> None:
    for dtype in (getattr(torch, name) for name in DTYPES.split() if hasattr(torch, name)):
        raw = torch.arange(64, dtype=torch.uint8) % 2
        tensor = raw.view(dtype).clone()
        for one in (tensor, tensor[1:3], tensor[:0], [tensor[1:], tensor]):
            got = torch_echo(one)
            for left, right in zip(*((x if isinstance(x, list) else [x]) for x in (got, one)), strict=True):
                assert left.dtype is dtype
                assert left.shape == right.shape
                assert (
                    left.contiguous().view(torch.uint8).tolist()
                    == right.contiguous().view(torch.uint8).tolist()
                )


def test_strides_and_offsets(torch_echo: Any) -> None:
    base = torch.arange(60.0).reshape(3, 4, 5)
    views = [
        base.t() if base.dim() == 2 else base.permute(2, 0, 1),
        base[1:, ::2, 3],
        base[:, 1],
        base.expand(2, 3, 4, 5),
    ]
    views += [
        torch.empty(4, 3, 8, 8).to(memory_format=torch.channels_last),
        torch.as_strided(base, (2, 2), (1, 1), 7),
    ]
    for view in views:
        got = torch_echo(view)
        assert (got.shape, got.stride(), got.storage_offset()) == (
            view.shape,
            view.stride(),
            view.storage_offset(),
        )
        assert torch.equal(got, view) or view.isnan().any()


def test_views_arrive_as_views_of_one_storage(ctx: Any) -> None:
    there, back, process = run(ctx, torch_targets.storages)
    base = torch.zeros(1_000)
    there.put([base[10:20], base[::3], base, base.view(10, 100)[3]])
    assert back.get(timeout=DEADLINE) == (1, [10, 0, 0, 300], [4_000] * 4)
    there.put([base[500:], torch.zeros(3), base[:5]])
    assert back.get(timeout=DEADLINE) == (2, [500, 0, 0], [4_000, 12, 4_000])
    # Through pickle: the object occurs twice.
    there.put([base, base, base[7:]])
    assert back.get(timeout=DEADLINE) == (1, [0, 0, 7], [4_000] * 3)
    finish(there, back, process)


def test_views_in_several_messages_share_memory() -> None:
    queue = fmp.Queue()
    base = torch.zeros(1_000)
    queue.put(base[:500])
    queue.put(base[250:])
    first, second = queue.get(timeout=5), queue.get(timeout=5)
    first[250] = 8
    assert second[0] == 8


def test_one_object_twice_is_one_object(torch_both: Any) -> None:
    queue = torch_both.SimpleQueue()
    tensor = torch.zeros(10)
    queue.put([tensor, {"again": tensor}])
    first, second = queue.get()
    assert first is second["again"]


# --- where memory comes from


def test_memory_of_numpy_and_of_buffers_moves_away(torch_both: Any) -> None:
    queue = torch_both.SimpleQueue()
    array = np.arange(5.0)
    tensor = torch.from_numpy(array)
    queue.put(tensor)
    got = queue.get()
    got[0] = 100
    assert tensor[0] == 100
    assert array[0] == 0  # as torch: the tensor lies elsewhere now
    buffer = torch.frombuffer(bytearray(b"abcd"), dtype=torch.uint8)
    queue.put(buffer)
    queue.get()[1] = 0
    assert buffer.tolist() == [97, 0, 99, 100]


def test_a_mapped_file(tmp_path: Path) -> None:
    queue = fmp.Queue()
    np.arange(4_000, dtype="f4").tofile(tmp_path / "data")
    mapped = torch.from_numpy(np.memmap(tmp_path / "data", dtype="f4", mode="r+"))
    queue.put(mapped)
    assert torch.equal(queue.get(timeout=5), torch.arange(4_000.0))


def test_tensors_that_torch_shares_already_stay_where_they_are() -> None:
    if fmp.get_sharing_strategy() == "file_system":
        pytest.skip("torch itself moves what it shares by descriptor into a file")
    queue = fmp.Queue()
    storage = torch._C.StorageBase._new_using_fd_cpu(40)
    tensor = torch.empty(0).set_(storage)
    tensor.zero_()
    address = tensor.data_ptr()
    queue.put(tensor)
    got = queue.get(timeout=5)
    assert tensor.data_ptr() == address
    got[0] = 4
    assert tensor[0] == 4


def test_resizing_is_refused() -> None:
    # torch documents the same; torch 2.13 resizes, and crashes on the next access.
    queue = fmp.SimpleQueue()
    tensor = torch.zeros(10)
    queue.put(tensor)
    got = queue.get()
    for one in (tensor, got):
        one.resize_(5)
        with pytest.raises(RuntimeError, match="not resizable"):
            one.resize_(10_000)
        with pytest.raises(RuntimeError, match="not resizable"):
            one.untyped_storage().resize_(80)


def test_a_sent_storage_may_be_given_up() -> None:
    # torch frees it as well, and then takes the empty storage for the one that arrives, and crashes.
    queue = fmp.SimpleQueue()
    tensor = torch.arange(10.0)
    queue.put(tensor)
    tensor.untyped_storage().resize_(0)
    assert tensor.untyped_storage().nbytes() == 0
    assert torch.equal(queue.get(), torch.arange(10.0))
    queue.close()


def test_what_was_given_up_may_grow_again() -> None:
    # As FSDP does with what was not shared; torch writes to address 0 here.
    queue = fmp.SimpleQueue()
    tensor = torch.arange(10.0)
    queue.put(tensor)
    tensor.untyped_storage().resize_(0)
    tensor.untyped_storage().resize_(40)
    tensor.fill_(3)
    assert tensor.sum() == 30
    assert torch.equal(queue.get(), torch.arange(10.0))
    queue.close()


def test_a_received_storage_may_be_given_up() -> None:
    queue = fmp.SimpleQueue()
    queue.put(torch.arange(10.0))
    got = queue.get()
    queue.close()
    before = forklift.stats()["leases"]
    got.untyped_storage().resize_(0)
    assert forklift.stats()["leases"] == before - 1
    with pytest.raises(RuntimeError, match="not resizable"):  # torch would write to address 0
        got.untyped_storage().resize_(40)


def test_copies_own_their_memory() -> None:
    queue = fmp.Queue()
    tensor = torch.arange(10.0)
    queue.put(tensor)
    got = queue.get(timeout=5)
    file = io.BytesIO()
    torch.save(got, file)
    file.seek(0)
    for other in (copy.deepcopy(got), got.clone(), copy.copy(got).clone(), torch.load(file)):
        assert not is_held(other)
        assert torch.equal(other, tensor)

"""torch's own sharing functions and queues, on tensors that lie in Forklift's memory, and the reverse."""

from __future__ import annotations

import os
import warnings
from typing import Any

import forklift.multiprocessing as fmp
import pytest
import torch_targets
from forklift import _core
from torch_support import DEADLINE, finish, is_held, run, tmp, torch


def held(size: int = 3_000) -> Any:
    """A tensor that was sent through Forklift."""
    tensor = torch.arange(float(size))
    queue = fmp.Queue()
    queue.put(tensor)
    queue.get(timeout=5)
    assert is_held(tensor)
    return tensor


def test_share_memory_and_is_shared() -> None:
    tensor = torch.zeros(10)
    assert not tensor.is_shared()
    address = tensor.data_ptr()
    assert tensor.share_memory_() is tensor
    assert tensor.is_shared()
    assert tensor.untyped_storage().is_shared()
    assert tensor[3:].is_shared()
    assert is_held(tensor)
    moved = tensor.data_ptr()
    assert moved != address
    tensor.share_memory_()
    assert tensor.data_ptr() == moved
    assert not tensor.clone().is_shared()
    assert torch.zeros(0).share_memory_().shape == (0,)
    sent = held()
    assert sent.is_shared()
    assert sent.share_memory_().data_ptr() == sent.data_ptr()
    model = torch.nn.Linear(2, 2).share_memory()
    assert all(parameter.is_shared() for parameter in model.parameters())


def test_what_is_shared_needs_no_descriptor() -> None:
    before = len(os.listdir("/proc/self/fd"))
    tensors = [torch.zeros(10).share_memory_() for _ in range(50)]
    assert len(os.listdir("/proc/self/fd")) == before
    del tensors


def test_after_share_memory_a_forked_child_writes_to_it(torch_both: Any) -> None:
    tensor = torch.zeros(4).share_memory_()
    child = torch_both.Process(target=torch_targets.fill_argument, args=(tensor, 3.0))
    child.start()
    child.join(DEADLINE)
    assert tensor.tolist() == [3.0] * 4


@pytest.mark.parametrize("library", [pytest.param("torch", marks=pytest.mark.weekly), "forklift"])
def test_arguments_of_a_fresh_interpreter(library: str) -> None:
    context = (tmp if library == "torch" else fmp).get_context("spawn")
    for tensor in (held(), torch.zeros(5).share_memory_(), torch.zeros(5)):
        child = context.Process(target=torch_targets.fill_argument, args=(tensor, 3.0))
        child.start()
        child.join(60)
        assert child.exitcode == 0
        assert (tensor == 3).all()
        child.close()
        del child


def test_arguments_of_a_forkserver_child() -> None:
    tensor = held()
    child = fmp.get_context("forkserver").Process(target=torch_targets.fill_argument, args=(tensor, 2.0))
    child.start()
    child.join(60)
    assert (tensor == 2).all()


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_torchs_queue_carries_forklifts_tensors(method: str) -> None:
    # A fresh interpreter of torch's is in no domain: it joins when it asks for the first tensor.
    there, back, process = run(tmp.get_context(method), torch_targets.add_one)
    tensor, parameter = held(), torch.nn.Parameter(held())
    for turn in (1, 2):
        for one in (tensor, parameter):
            there.put(one)
            assert back.get(timeout=60) == "done"
        assert tensor[5] == 5 + turn
        assert parameter[0] == turn
    finish(there, back, process)
    process.close()


def test_a_tensor_comes_back_through_torchs_queue() -> None:
    there, back, process = run(tmp.get_context("fork"), torch_targets.echo)
    tensor = held()
    there.put([tensor, tensor[10:20]])
    got, part = back.get(timeout=DEADLINE)
    assert is_held(got)
    got[12] = -1
    assert tensor[12] == part[2] == -1
    del got, part
    finish(there, back, process)


def test_forklifts_queue_carries_what_torchs_brought() -> None:
    queue, ours = tmp.get_context("fork").SimpleQueue(), fmp.Queue()
    storage = torch._C.StorageBase._new_using_fd_cpu(16)
    shared = torch.zeros(4)
    shared.set_(storage, 0, (4,), (1,)).zero_()
    assert shared.is_shared()
    assert not is_held(shared)
    queue.put(shared)
    got = queue.get()
    ours.put([got, 1])
    again = ours.get(timeout=5)[0]
    again[1] = 7
    assert shared[1] == 7
    assert shared.share_memory_() is shared
    assert not is_held(shared)
    queue.close()


def test_leaving_for_torchs_memory_is_told() -> None:
    tensor = held()
    with pytest.warns(RuntimeWarning, match="leaves Forklift"):
        _fd, size = tensor.untyped_storage()._share_fd_cpu_()
    assert size == 12_000
    assert not is_held(tensor)
    assert tensor[5] == 5


class Numbers(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 24

    def __getitem__(self, index: int) -> Any:
        return torch.full((2_000,), float(index)), index


@pytest.mark.parametrize("library", ["torch", "forklift"])
def test_data_loaders(library: str) -> None:
    context = (tmp if library == "torch" else fmp).get_context("fork")
    loader = torch.utils.data.DataLoader(
        Numbers(), batch_size=4, num_workers=2, multiprocessing_context=context
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        batches = list(loader)
    assert [labels.tolist() for _, labels in batches] == [list(range(i, i + 4)) for i in range(0, 24, 4)]
    for data, labels in batches:
        assert (data == labels[:, None]).all()
        assert data.is_shared()
    del batches, data, labels, loader


def test_what_a_program_registers_wins() -> None:
    from multiprocessing.reduction import ForkingPickler

    registered: Any = ForkingPickler._extra_reducers  # type: ignore[attr-defined]
    theirs = registered[torch.Tensor]
    queue = fmp.Queue()
    try:
        ForkingPickler.register(torch.Tensor, lambda tensor: (str, ("mine",)))
        queue.put(torch.zeros(3))
        queue.put([torch.zeros(3)] * 2)
        assert queue.get(timeout=5) == "mine"
        assert queue.get(timeout=5) == ["mine", "mine"]
    finally:
        ForkingPickler.register(torch.Tensor, theirs)
    queue.put(torch.zeros(3))
    assert queue.get(timeout=5).tolist() == [0, 0, 0]


def test_meeting_torch_twice_changes_nothing() -> None:
    share = torch.UntypedStorage.share_memory_
    _core._torch.meet()
    from forklift.adapters.torch import tensors as adapter

    adapter.install()
    assert torch.UntypedStorage.share_memory_ is share

"""What a tensor costs once it was sent: its memory once, as with torch; and what the old addresses show."""

from __future__ import annotations

import gc
import os
import sys
import threading
import warnings
from typing import Any

import forklift
import forklift.multiprocessing as fmp
import numpy as np
import pytest
import support
import torch_targets
from forklift import _core
from torch_support import DEADLINE, MIB, is_held, proportional_memory, through, torch


@pytest.mark.parametrize(
    ("count", "items"), [(2, 16 * MIB), (64, MIB // 4), (300, 40_000)], ids=["64MB", "1MB", "160KB"]
)
def test_a_sent_tensor_has_its_memory_once(torch_both: Any, count: int, items: int) -> None:
    gc.collect()
    through(torch_both, [torch.ones(items)])
    gc.collect()
    tensors = [torch.full((items,), float(i)) for i in range(count)]
    before = proportional_memory()
    through(torch_both, tensors)
    grown = proportional_memory() - before
    total = count * items * 4
    assert grown < total * 0.05 + MIB, f"{grown / MIB:.1f} MiB more for {total / MIB:.1f}"
    assert all(int(t[-1]) == i for i, t in enumerate(tensors))


def test_so_has_one_that_was_shared_in_place(torch_both: Any) -> None:
    through(torch_both, [torch.ones(MIB)])
    tensors = [torch.full((MIB,), float(i)) for i in range(16)]
    before = proportional_memory()
    for tensor in tensors:
        tensor.share_memory_()
    assert proportional_memory() - before < 16 * 4 * MIB * 0.05 + MIB
    assert all(int(t[-1]) == i for i, t in enumerate(tensors))


def test_many_small_tensors_have_their_memory_once() -> None:
    through(fmp, [torch.ones(4_096)])
    tensors = [torch.full((4_096,), float(i)) for i in range(3_000)]
    gc.collect()
    before = proportional_memory()
    through(fmp, tensors)
    total = 3_000 * 4 * 4_096
    grown = proportional_memory() - before
    # Of each, the ends of the freed memory lie in pages with something else. A named segment has 64 bytes
    # before the data, and so a page more.
    pages = 3_000 * 4_096 if fmp.get_sharing_strategy() == "file_system" else 0
    assert grown < total * 0.3 + pages + 2 * MIB, f"{grown / MIB:.1f} MiB more for {total / MIB:.1f}"
    assert all(int(t[-1]) == i for i, t in enumerate(tensors))


@pytest.mark.parametrize("items", [100, MIB])
def test_an_array_made_earlier_keeps_what_it_shows(items: int) -> None:
    tensor = torch.ones(items)
    array = tensor.numpy()
    through(fmp, [tensor])
    assert is_held(tensor)
    tensor.fill_(2)
    assert (array == 1).all()
    array[:] = 3
    assert bool((tensor == 2).all())
    del tensor
    gc.collect()
    assert (array == 3).all()


# The copy in a named segment begins 64 bytes behind a page's beginning, and malloc places memory anywhere.
overlaid = pytest.mark.skipif(
    fmp.get_sharing_strategy() == "file_system", reason="old memory in a page's middle is not overlaid"
)


@overlaid
def test_a_large_dlpack_export_made_earlier_shows_the_shared_memory() -> None:
    tensor = torch.ones(MIB)
    array = np.from_dlpack(tensor)
    through(fmp, [tensor])
    tensor.fill_(2)
    inner = array[1_024:-1_024]  # all but the pages at the ends, which keep what they were
    assert (inner == 2).all()
    assert set(np.unique(array)) <= {1.0, 2.0}
    del tensor
    gc.collect()
    assert (inner == 2).all()


def test_a_small_dlpack_export_made_earlier_stays_readable() -> None:
    tensors = [torch.ones(1_000) for _ in range(300)]
    arrays = [np.from_dlpack(t) for t in tensors]
    through(fmp, tensors)
    churn = [torch.zeros(1_000) for _ in range(300)]
    assert all((a == 1).all() for a in arrays)
    del churn


def test_the_allocator_gets_its_memory_back() -> None:
    """Storages of every size die after they were sent, and their old memory is used again."""
    random = np.random.default_rng(7)
    for _ in range(60):
        tensors = [torch.full((int(n),), float(n)) for n in random.integers(1, 200_000, 20)]
        through(fmp, tensors)
        for tensor in tensors:
            assert tensor[0] == tensor[-1] == len(tensor)
        del tensors, tensor
        assert all(not torch.zeros(n).any() for n in (1_000, 30_000, 50_000, 400_000))


@overlaid
def test_sent_memory_after_a_fork() -> None:
    """The child has the same memory, under the old addresses, too, and may let it go."""
    tensor = torch.ones(MIB)
    array = np.from_dlpack(tensor)
    through(fmp, [tensor])
    context = fmp.get_context("fork")
    queue = context.SimpleQueue()

    def child() -> None:
        nonlocal tensor, array
        torch.set_num_threads(1)  # OpenMP does not survive a fork
        tensor.fill_(5)
        queue.put(float(array[5_000]))
        del tensor, array
        gc.collect()
        queue.put(float(torch.zeros(MIB).sum()))

    process = context.Process(target=child)
    process.start()
    assert queue.get() == 5.0
    assert queue.get() == 0.0
    process.join(DEADLINE)
    assert process.exitcode == 0
    assert tensor[0] == 5
    assert array[5_000] == 5
    queue.close()


def test_mappings_stay_few() -> None:
    def mappings() -> int:
        with open("/proc/self/maps") as lines:
            return sum(1 for _ in lines)

    through(fmp, [torch.ones(MIB)])
    before = mappings()
    for _ in range(200):
        through(fmp, [torch.ones(MIB)])
    assert mappings() - before < 20


def test_a_hundred_thousand_tensors_leave_nothing() -> None:
    def held() -> dict[str, int]:
        gc.collect()
        with open("/proc/self/maps") as lines:
            mappings = sum(1 for _ in lines)
        stats = forklift.stats()
        return {
            "descriptors": len(os.listdir("/proc/self/fd")),
            "mappings": mappings,
            "leases": stats["leases"],
            "blocks": stats["blocks"],
            "MiB": proportional_memory() // MIB,
        }

    queue = fmp.SimpleQueue()
    seen = []
    for round_ in range(5):
        for i in range(20_000):
            queue.put(torch.full((64,), float(i)))
            got = queue.get()
            assert got[0] == i
        del got
        seen.append(held())
        print(f"after {(round_ + 1) * 20_000:,} tensors: {seen[-1]}")
    queue.close()
    first, last = seen[0], seen[-1]
    assert last["descriptors"] == first["descriptors"]
    assert last["leases"] == first["leases"]
    assert last["blocks"] == first["blocks"]
    assert last["mappings"] <= first["mappings"] + 3
    assert last["MiB"] <= first["MiB"] + 2


# --- the thread that gives old memory back


def tasks() -> int:
    return len(os.listdir("/proc/self/task"))


def test_the_thread_ends() -> None:
    tensors = [torch.ones(MIB) for _ in range(8)]  # torch's own threads are there now
    before = tasks()
    through(fmp, tensors)
    _core._torch.finish_giving_back()
    support.until(lambda: tasks() <= before, "the thread's end")


@pytest.mark.skipif(sys.version_info < (3, 12), reason="Python does not warn of forks beside threads")
def test_a_fork_beside_it_does_not_warn() -> None:
    queue = fmp.get_context("fork").SimpleQueue()
    tensors = [torch.ones(MIB) for _ in range(8)]
    for tensor in tensors:
        queue.put(tensor)
        queue.get()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        child = fmp.get_context("fork").Process(target=int)
        child.start()
    child.join()
    assert child.exitcode == 0
    queue.close()


def test_forks_while_others_send() -> None:
    """Of the sender at once, while another thread sends: children and parents have whole tensors."""
    context = fmp.get_context("fork")
    stop, rounds = threading.Event(), []

    def send() -> None:
        own = fmp.SimpleQueue()
        while not stop.is_set():
            tensor = torch.ones(MIB)
            own.put(tensor)
            got = own.get()
            rounds.append(float(got[0] + got[-1]))
            del got, tensor
        own.close()

    sender = threading.Thread(target=send)
    sender.start()
    queue = context.SimpleQueue()
    try:
        for number in range(15):
            tensor = torch.full((8 * MIB,), float(number))
            queue.put(tensor)
            child = context.Process(target=torch_targets.check_ends, args=(queue, float(number)))
            child.start()
            child.join(DEADLINE)
            assert child.exitcode == 0
            assert tensor[0] == tensor[-1] == number
    finally:
        stop.set()
        sender.join()
    assert set(rounds) == {2.0}
    queue.close()

"""How forklift.adapters.torch.DataLoader asks for batches: ahead, bounded, in any order, from any thread."""

from __future__ import annotations

import threading
import time
from typing import Any

import forklift.multiprocessing as fmp
import loader_datasets as datasets
import pytest
from forklift.adapters.torch import DataLoader
from torch_support import is_held, torch

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")
Theirs: Any = torch.utils.data.DataLoader


def made(kind: Any, dataset: Any, **options: Any) -> Any:
    datasets.seed()
    return kind(dataset, **{"batch_size": 4, "num_workers": 2, **options})


class Counted(datasets.Numbers):
    """Notes in shared memory how many samples were asked for."""

    def __init__(self, width: int) -> None:
        super().__init__(100, width)
        self.asked = fmp.Value("q", 0)

    def __getitem__(self, index: int) -> Any:
        with self.asked.get_lock():
            self.asked.value += 1
        return super().__getitem__(index)


def settled(dataset: Counted) -> int:
    """The number of samples asked for, once the workers wait."""
    seen, since = dataset.asked.value, time.monotonic()
    while time.monotonic() - since < 0.3:
        if dataset.asked.value != seen:
            seen, since = dataset.asked.value, time.monotonic()
        time.sleep(0.01)
    return int(seen)


@pytest.mark.parametrize("kind", [Theirs, DataLoader])
def test_prefetch_is_bounded_in_batches(kind: Any) -> None:
    dataset = Counted(10)
    iterator = iter(made(kind, dataset, prefetch_factor=3))
    assert settled(dataset) == 2 * 3 * 4
    next(iterator)
    assert settled(dataset) == 2 * 3 * 4 + 4


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of torch's iterator
@pytest.mark.parametrize("kind", [Theirs, DataLoader])
def test_no_prefetch_is_refused(kind: Any) -> None:
    loader = made(kind, datasets.Numbers(), prefetch_factor=0)
    with pytest.raises(AssertionError, match="prefetch_factor must be greater than 0"):
        iter(loader)


def test_prefetch_is_bounded_in_bytes() -> None:
    dataset = Counted(2_500)  # batches of 4 x 10 kB, and labels
    iterator = iter(made(DataLoader, dataset, prefetch_factor=8, prefetch_bytes=150_000))
    assert settled(dataset) in (4, 12)  # one batch while nothing is known of the size
    for taken in range(1, 5):
        next(iterator)
        assert settled(dataset) == 4 * (taken + 3)
    assert [labels[0].item() for _, labels in iterator] == [*range(16, 100, 4)]


def test_less_than_a_batch_is_still_one() -> None:
    loader = made(DataLoader, datasets.Noisy(), prefetch_bytes=1)
    assert datasets.collected(loader) == datasets.collected(made(Theirs, datasets.Noisy()))


@pytest.mark.parametrize("kind", [Theirs, DataLoader])
def test_out_of_order_gives_every_batch_once(kind: Any) -> None:
    loader = made(kind, datasets.Noisy(48), in_order=False, num_workers=3)
    labels = sorted(labels.tolist() for _, labels in loader)
    assert labels == [[*range(at, at + 4)] for at in range(0, 48, 4)]
    ours, control = (
        sorted(map(str, datasets.collected(made(each, datasets.Uneven(), in_order=in_order))[0]))
        for each, in_order in ((kind, False), (Theirs, True))
    )
    assert ours == control


def test_out_of_order_a_slow_batch_holds_nobody_up() -> None:
    loader = made(DataLoader, datasets.Noisy(48), in_order=False, persistent_workers=True)
    for _ in range(2):
        labels = [batch[1].tolist() for batch in loader]
        assert sorted(labels) == [[*range(at, at + 4)] for at in range(0, 48, 4)]
        assert labels.index([4, 5, 6, 7]) > 1  # index 7 takes its time


def test_two_epochs_at_once() -> None:
    loader = made(DataLoader, datasets.Numbers())
    for one, other in zip(loader, loader, strict=True):
        assert one[1].tolist() == other[1].tolist()


def test_another_thread_may_iterate() -> None:
    results: list[Any] = []
    loader = made(DataLoader, datasets.Numbers())
    thread = threading.Thread(target=lambda: results.extend(datasets.collected(loader)))
    thread.start()
    thread.join(60)
    assert results == datasets.collected(loader)


def nested(queue: Any) -> None:
    import torch

    torch.set_num_threads(1)
    queue.put(datasets.collected(made(DataLoader, datasets.Numbers(width=3))))


def test_a_loader_in_a_child() -> None:
    context = fmp.get_context("fork")
    queue = context.Queue()
    outer = iter(made(DataLoader, datasets.Numbers(width=3)))
    next(outer)
    child = context.Process(target=nested, args=(queue,))
    child.start()
    assert queue.get(timeout=60) == datasets.collected(made(DataLoader, datasets.Numbers(width=3)))
    child.join()
    assert child.exitcode == 0
    assert next(outer)[1].tolist() == [4, 5, 6, 7]  # the child did not end the workers that it inherited


class Nesting(datasets.Numbers):
    def __getitem__(self, index: int) -> Any:
        return len(list(made(DataLoader, datasets.Numbers())))


@pytest.mark.parametrize("kind", [Theirs, DataLoader])
def test_a_loader_in_a_worker(kind: Any) -> None:
    """Daemons have no children: the same error in both."""
    iterator = iter(made(kind, Nesting()))
    with pytest.raises(AssertionError, match="daemonic processes are not allowed to have children"):
        next(iterator)
    datasets.kill_workers(iterator)


def test_more_than_the_budget_is_made_in_torchs_memory(small_budget: int) -> None:
    """Batches of 8 MB, of which eight are on their way, in 64 MB: some find no room in the arena."""
    loader = made(DataLoader, datasets.Numbers(48, 500_000), prefetch_factor=8)
    held = 0
    kept = []
    for number, (data, labels) in enumerate(loader):
        assert labels.tolist() == [*range(4 * number, 4 * number + 4)]
        assert (data == labels[:, None]).all()
        held += is_held(data)
        kept = [*kept[-2:], data]
    assert number == 11
    assert held

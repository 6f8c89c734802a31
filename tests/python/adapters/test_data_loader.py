"""forklift.adapters.torch.DataLoader: the batches of torch's own, which is the control, and what it adds."""

from __future__ import annotations

import copy
import gc
import inspect
import os
import pickle
import subprocess
import sys
import time
from typing import Any

import forklift.multiprocessing as fmp
import loader_datasets as datasets
import pytest
from forklift.adapters.torch import DataLoader
from torch_support import is_held, tmp, torch

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")
Theirs: Any = torch.utils.data.DataLoader


def made(kind: Any, dataset: Any, **options: Any) -> Any:
    datasets.seed()
    return kind(dataset, **{"batch_size": 4, "num_workers": 2, **options})


def generator() -> Any:
    return torch.Generator().manual_seed(11)


OPTIONS: dict[str, tuple[Any, Any]] = {
    "sequential": (datasets.Noisy(), dict),
    "sequential-drop": (datasets.Noisy(23), lambda: {"drop_last": True, "num_workers": 3}),
    "one-by-one": (datasets.Noisy(9), lambda: {"batch_size": None}),
    "shuffled": (datasets.Noisy(), lambda: {"shuffle": True}),
    "shuffled-drop": (datasets.Noisy(23), lambda: {"shuffle": True, "drop_last": True}),
    "generator": (datasets.Noisy(), lambda: {"shuffle": True, "generator": generator()}),
    "replacement": (
        datasets.Noisy(),
        lambda: {"sampler": torch.utils.data.RandomSampler(range(24), True, 40, generator())},
    ),
    "weighted": (
        datasets.Noisy(),
        lambda: {"sampler": torch.utils.data.WeightedRandomSampler([*range(1, 25)], 30)},
    ),
    "batches": (
        datasets.Noisy(),
        lambda: {"batch_size": 1, "batch_sampler": [[0], [*range(20)] * 5, [3, 1]]},
    ),
    "strange": (datasets.Named(), lambda: {"sampler": datasets.Strange(), "batch_size": None}),
    "strange-batches": (datasets.Named(), lambda: {"sampler": datasets.Strange()}),
    "init": (datasets.Noisy(), lambda: {"worker_init_fn": datasets.reseed, "timeout": 60}),
    "persistent": (datasets.Noisy(), lambda: {"shuffle": True, "persistent_workers": True}),
    "prefetch": (datasets.Noisy(), lambda: {"prefetch_factor": 5, "num_workers": 1}),
    "iterable": (datasets.Uneven(), lambda: {"num_workers": 3}),
    "iterable-drop": (datasets.Uneven(), lambda: {"num_workers": 3, "drop_last": True, "batch_size": 3}),
    "iterable-one-by-one": (datasets.Uneven(), lambda: {"num_workers": 3, "batch_size": None}),
    "iterable-persistent": (datasets.Uneven(), lambda: {"num_workers": 3, "persistent_workers": True}),
    "nested": (datasets.Nested(), dict),
    "collate": (datasets.Numbers(width=5), lambda: {"collate_fn": datasets.to_numpy}),
    "own-process": (datasets.Noisy(), lambda: {"num_workers": 0, "shuffle": True}),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_the_batches_of_torch(name: str) -> None:
    dataset, options = OPTIONS[name]
    control, ours = (datasets.collected(made(kind, dataset, **options()), 2) for kind in (Theirs, DataLoader))
    assert control[0]
    assert ours == control


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
@pytest.mark.parametrize("name", ["persistent", "iterable-persistent", "nested"])
def test_the_batches_of_torch_from_fresh_interpreters(name: str, method: str) -> None:
    dataset, options = OPTIONS[name]
    control = datasets.collected(made(Theirs, dataset, **options()), 2)
    loader = made(DataLoader, dataset, multiprocessing_context=method, **options())
    assert datasets.collected(loader, 2) == control


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("name", ["generator", "replacement", "weighted", "iterable"])
def test_the_epoch_behind_one_that_was_left(name: str, persistent: bool) -> None:
    """The samplers were asked for as many batches, and the workers have made as many."""
    results = []
    for kind in (Theirs, DataLoader):
        dataset, options = OPTIONS[name]
        loader = made(kind, dataset, **{**options(), "persistent_workers": persistent})
        for _ in loader:
            break
        results.append((datasets.collected(loader), torch.rand(2).tolist()))
    assert results[0] == results[1]


def test_any_context_is_forklifts_of_its_method() -> None:
    for context in ("fork", tmp.get_context("fork"), fmp.get_context("fork"), None):
        loader = made(DataLoader, datasets.Numbers(), multiprocessing_context=context)
        assert loader.worker_context() is fmp.get_context("fork")
        assert len(list(loader)) == 6
    with pytest.raises(ValueError, match="should specify a valid start method"):
        made(DataLoader, datasets.Numbers(), multiprocessing_context="thread")
    with pytest.raises(TypeError, match="should be a valid context"):
        made(DataLoader, datasets.Numbers(), multiprocessing_context=3)


def test_arguments() -> None:
    ours, theirs = (inspect.signature(kind).parameters for kind in (DataLoader, Theirs))
    assert {name: (each.kind, each.default) for name, each in ours.items() if name in theirs} == {
        name: (each.kind, each.default) for name, each in theirs.items()
    }
    assert {*ours} - {*theirs} == {"prefetch_bytes", "on_worker_death"}
    for wrong in ({"prefetch_bytes": 0}, {"on_worker_death": "ignore"}, {"num_workers": -1}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            DataLoader(datasets.Numbers(), **wrong)  # type: ignore[arg-type]
    loader = made(DataLoader, datasets.Numbers())
    with pytest.raises(ValueError, match="batch_size attribute should not be set after DataLoader"):
        loader.batch_size = 3
    assert len(loader) == 6
    assert isinstance(loader, Theirs)


def test_a_loader_can_be_copied() -> None:
    loader = made(DataLoader, datasets.Numbers(width=3), prefetch_bytes=1 << 20)
    expected = datasets.collected(loader)
    for other in (copy.deepcopy(loader), pickle.loads(pickle.dumps(loader))):
        assert other.prefetch_bytes == 1 << 20
        assert datasets.collected(other) == expected
        assert other.report().batches == 6


def test_an_iterator_is_over_when_it_is_over() -> None:
    iterator = iter(made(DataLoader, datasets.Numbers()))
    assert len(list(iterator)) == 6
    assert list(iterator) == []


# --- where the batches lie


def test_batches_are_made_in_the_arena() -> None:
    loader = made(DataLoader, datasets.Nested())
    for batch in loader:
        for name in ("tensor", "array", "strided", "half"):
            assert is_held(batch[name]), name
        assert is_held(batch["pair"].left)
    report = loader.report()
    per_batch = 4 * (6 * 8 + 6 * 4 + 6 * 2 + 3 * 2 + 8 + 8 + 8 + 8)
    assert report.bytes == 6 * per_batch + 6 * 4 * len(b"bytes")
    # What torch makes of Python's numbers: four of them, in the scalars and in the pair.
    assert report.copied <= 6 * 4 * (5 * 8 + len(b"bytes"))


def test_large_samples_are_not_copied_again() -> None:
    loader = made(DataLoader, datasets.Numbers(width=50_000))
    assert all(is_held(data) for data, _ in loader)
    report = loader.report()
    assert report.bytes == 24 * (200_000 + 8)
    assert report.copied <= 24 * 8  # the labels


class Large(torch.utils.data.Dataset):  # type: ignore[misc]
    """Samples of 1 MB, of a kind that collate knows how to copy at once, or not."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __len__(self) -> int:
        return 24

    def __getitem__(self, index: int) -> Any:
        tensor = torch.arange(1 << 18, dtype=torch.float32).view(512, 512) + index
        match self.kind:
            case "transposed":
                return tensor.t() if index % 3 else tensor
            case "negative":
                return (
                    torch.view_as_complex(tensor.view(-1, 2)).conj().imag
                    if index % 2
                    else tensor.view(-1)[::2]
                )
            case "array":
                return tensor.numpy()
            case "array-transposed":
                return tensor.numpy().T
            case "mixed":
                return tensor if index % 2 else tensor.double()
        return tensor


@pytest.mark.parametrize("kind", ["plain", "transposed", "negative", "array", "array-transposed", "mixed"])
def test_large_batches(kind: str) -> None:
    """They are copied past the caches, where each sample is as the first one and in one piece."""
    control = made(Theirs, Large(kind), num_workers=0, batch_size=20)
    loader = made(DataLoader, Large(kind), num_workers=1, batch_size=20)
    for ours, theirs in zip(loader, control, strict=True):
        assert ours.dtype == theirs.dtype
        assert torch.equal(ours, theirs)
        assert is_held(ours)


def test_what_collate_functions_return_is_moved() -> None:
    loader = made(DataLoader, datasets.Numbers(), collate_fn=datasets.first)
    assert all(is_held(data) for data, _ in loader)
    assert loader.report().copied == 6 * 8_000


@pytest.mark.parametrize("kind", [Theirs, DataLoader])
def test_what_cannot_be_collated(kind: Any) -> None:
    ragged = [torch.zeros(each % 2 + 1) for each in range(8)]
    with pytest.raises(RuntimeError, match="stack expects each tensor to be equal size"):
        list(made(kind, ragged))
    with pytest.raises(TypeError, match="default_collate: batch must contain tensors"):
        list(made(kind, [object()] * 8))
    arrays = [torch.zeros(3).numpy().astype(kind) for kind in ("f4", "f8") * 4]
    assert [batch.dtype for batch in made(kind, arrays)] == [batch.dtype for batch in made(Theirs, arrays)]


def test_a_program_may_extend_torchs_table() -> None:
    table = torch.utils.data._utils.collate.default_collate_fn_map
    table[complex] = lambda batch, *, collate_fn_map=None: torch.tensor(batch) + 1
    try:
        (batch,) = made(DataLoader, [1j, 2j])
    finally:
        del table[complex]
    assert batch.tolist() == [1 + 1j, 1 + 2j]


# --- errors


@pytest.mark.parametrize("kind", [Theirs, DataLoader])
def test_an_exception_in_a_worker(kind: Any) -> None:
    iterator = iter(made(kind, datasets.Failing()))
    assert next(iterator)[1].tolist() == [0, 1, 2, 3]
    with pytest.raises(KeyError, match=r"(?s)Caught KeyError in DataLoader worker process 1.*__getitem__"):
        next(iterator)
    assert [labels[0].item() for _, labels in iterator] == [8, 12, 16, 20]


@pytest.mark.parametrize("kind", [Theirs, DataLoader])
def test_a_failing_start_of_a_worker(kind: Any) -> None:
    iterator = iter(made(kind, datasets.Numbers(), worker_init_fn=datasets.fail_to_begin))
    next(iterator)
    with pytest.raises(ValueError, match=r"(?s)in DataLoader worker process 1.*does not like it here"):
        next(iterator)
    datasets.kill_workers(iterator)


def test_a_batch_that_cannot_be_sent_is_an_error() -> None:
    """torch's own prints the error on stderr and waits for the batch for ever."""
    loader = made(DataLoader, datasets.Unsendable(), batch_size=None)
    with pytest.raises(Exception, match=r"(?s)in DataLoader worker process 0.*[Pp]ickle"):
        next(iter(loader))


@pytest.mark.parametrize("kind", [Theirs, DataLoader])
def test_a_timeout(kind: Any) -> None:
    iterator = iter(made(kind, datasets.Stuck(0), timeout=0.2))
    with pytest.raises(RuntimeError, match=r"DataLoader timed out after 0\.2 seconds"):
        next(iterator)
    datasets.kill_workers(iterator)


# --- the end


def test_a_loader_that_nobody_iterates() -> None:
    loader = made(DataLoader, datasets.Numbers(), persistent_workers=True)
    assert loader.report().batches == 0
    del loader


def test_leaving_in_mid_epoch_ends_the_workers() -> None:
    iterator = iter(made(DataLoader, datasets.Numbers()))
    next(iterator)
    pids = [each.process.pid for each in iterator.group.workers]
    del iterator
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)
    for _ in made(DataLoader, datasets.Numbers()):
        break


def test_persistent_workers_end_with_their_loader() -> None:
    loader = made(DataLoader, datasets.Numbers(), persistent_workers=True)
    list(loader)
    pids = [each.process.pid for each in loader._iterator.group.workers]
    list(loader)
    assert pids == [each.process.pid for each in loader._iterator.group.workers]
    del loader
    gc.collect()
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)


def test_data_pipes_are_read_by_torchs_workers() -> None:
    from torch.utils.data.datapipes.iter import IterableWrapper

    loader = made(DataLoader, IterableWrapper(range(8)))
    assert sorted(each for batch in loader for each in batch.tolist()) == sorted([*range(8)] * 2)
    with pytest.raises(TypeError, match="DataPipes"):
        loader.state_dict()
    with pytest.raises(ValueError, match="DataPipes"):
        made(DataLoader, IterableWrapper(range(8)), on_worker_death="retry")


def test_the_report_says_where_the_time_went() -> None:
    loader = made(DataLoader, datasets.Noisy(), persistent_workers=True)
    for _ in range(2):
        for _ in loader:
            time.sleep(0.01)  # stands for learning: the workers are ahead and wait
    report = loader.report()
    assert report.batches == 12
    assert sum(each.batches for each in report.workers) == 12
    assert report.waited > 0
    assert all(each.blocked > 0.02 for each in report.workers)
    assert max(each.busy for each in report.workers) > 0.05
    text = str(report)
    assert "12 batches" in text
    assert "worker 1: " in text
    del loader
    assert report.batches == 12


def test_the_package_imports_no_torch() -> None:
    code = "import forklift.adapters.torch, sys; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)

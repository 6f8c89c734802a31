"""torch's own DataLoader with Forklift's contexts, with torch's contexts as the control."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from typing import Any

import forklift.multiprocessing as fmp
import loader_datasets as datasets
import pytest
from torch_support import is_held, tmp, torch

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")
METHODS = ("fork", "spawn", "forkserver")


def context_of(library: str, method: str = "fork") -> Any:
    return (tmp if library == "torch" else fmp).get_context(method)


def made(context: Any, dataset: Any, **options: Any) -> Any:
    torch.manual_seed(3)
    options = {"batch_size": 4, "num_workers": 2, "multiprocessing_context": context, **options}
    return torch.utils.data.DataLoader(dataset, **options)


def gone(pids: list[int]) -> bool:
    return not any(os.path.exists(f"/proc/{pid}") for pid in pids)


OPTIONS: dict[str, tuple[Any, dict[str, Any]]] = {
    "sequential": (datasets.Noisy(), {}),
    "shuffled": (datasets.Noisy(), {"shuffle": True}),
    "persistent": (datasets.Noisy(), {"shuffle": True, "persistent_workers": True}),
    "init": (datasets.Noisy(), {"worker_init_fn": datasets.reseed, "timeout": 60}),
    "iterable": (datasets.Uneven(), {"num_workers": 3}),
    "iterable-persistent": (datasets.Uneven(), {"num_workers": 3, "persistent_workers": True}),
    "nested": (datasets.Nested(), {"prefetch_factor": 3, "drop_last": True}),
    "strange": (datasets.Named(), {"sampler": datasets.Strange(), "batch_size": None}),
    "collate": (datasets.Numbers(width=5), {"collate_fn": datasets.to_numpy, "pin_memory": False}),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_the_same_batches(name: str) -> None:
    dataset, options = OPTIONS[name]
    control, ours = (
        datasets.collected(made(context_of(library), dataset, **options), 2)
        for library in ("torch", "forklift")
    )
    assert control[0]
    assert ours == control


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
@pytest.mark.parametrize("name", ["persistent", "iterable-persistent"])
def test_the_same_batches_from_fresh_interpreters(name: str, method: str) -> None:
    dataset, options = OPTIONS[name]
    control = datasets.collected(made(context_of("torch"), dataset, **options), 2)
    assert datasets.collected(made(context_of("forklift", method), dataset, **options), 2) == control


@pytest.mark.parametrize("library", ["torch", "forklift"])
def test_a_generators_seed_gives_the_order(library: str) -> None:
    def once() -> Any:
        generator = torch.Generator().manual_seed(11)
        loader = made(context_of(library), datasets.Noisy(), shuffle=True, generator=generator)
        return datasets.collected(loader, 2), generator.get_state().tolist()

    assert once() == once()


@pytest.mark.parametrize("library", ["torch", "forklift"])
def test_out_of_order_gives_every_batch_once(library: str) -> None:
    loader = made(context_of(library), datasets.Noisy(48), in_order=False)
    (batches,) = datasets.collected(loader)
    labels = [batch[1][1][2] for batch in batches]
    assert sorted(labels) == [[*range(at, at + 4)] for at in range(0, 48, 4)]


@pytest.mark.parametrize("method", METHODS)
def test_batches_lie_in_the_arena_from_the_first_one(method: str) -> None:
    descriptors = 0
    for number, (data, labels) in enumerate(made(context_of("forklift", method), datasets.Numbers())):
        if method == "fork":  # the children of the others are fresh interpreters, which must meet torch
            assert is_held(data)
        assert data.is_shared()
        assert is_held(labels)
        if number == 0:
            descriptors = len(os.listdir("/proc/self/fd"))
        assert len(os.listdir("/proc/self/fd")) <= descriptors


@pytest.mark.parametrize("library", ["torch", "forklift"])
@pytest.mark.parametrize("method", METHODS)
def test_a_killed_worker_is_an_error(library: str, method: str) -> None:
    """At once where the workers are this process's children; torch looks after others each five seconds."""
    loader = made(context_of(library, method), datasets.Stuck(8))
    iterator = iter(loader)
    next(iterator), next(iterator)
    pids = [worker.pid for worker in iterator._workers]
    begin = time.monotonic()
    timer = threading.Timer(0.2, os.kill, (pids[1], signal.SIGKILL))  # while the loader waits
    timer.start()
    with pytest.raises(
        RuntimeError, match=r"DataLoader worker \(pid.*(killed by signal|exited unexpectedly)"
    ):
        next(iterator)
    timer.join()
    assert time.monotonic() - begin < (7.0 if method == "forkserver" else 2.0)
    datasets.kill_workers(iterator)
    del iterator


@pytest.mark.parametrize("library", ["torch", "forklift"])
def test_an_exception_in_a_worker(library: str) -> None:
    loader = made(context_of(library), datasets.Failing())
    iterator = iter(loader)
    assert next(iterator)[1].tolist() == [0, 1, 2, 3]
    with pytest.raises(KeyError, match="Caught KeyError in DataLoader worker process 1"):
        next(iterator)
    assert [labels[0].item() for _, labels in iterator] == [8, 12, 16, 20]


@pytest.mark.parametrize("library", ["torch", "forklift"])
def test_a_failing_start_of_a_worker(library: str) -> None:
    loader = made(context_of(library), datasets.Numbers(), worker_init_fn=datasets.fail_to_begin)
    iterator = iter(loader)
    next(iterator)
    with pytest.raises(ValueError, match="worker 1 does not like it here"):
        next(iterator)
    datasets.kill_workers(iterator)


@pytest.mark.parametrize("library", ["torch", "forklift"])
def test_a_timeout(library: str) -> None:
    iterator = iter(made(context_of(library), datasets.Stuck(0), timeout=0.2))
    with pytest.raises(RuntimeError, match=r"DataLoader timed out after 0\.2 seconds"):
        next(iterator)
    datasets.kill_workers(iterator)


@pytest.mark.parametrize("library", ["torch", "forklift"])
def test_leaving_in_mid_epoch_ends_the_workers(library: str) -> None:
    for turn, _ in enumerate(made(context_of(library), datasets.Numbers())):
        if turn == 1:
            break
    iterator = iter(made(context_of(library), datasets.Numbers()))
    next(iterator)
    pids = [worker.pid for worker in iterator._workers]
    del iterator
    assert gone(pids)


@pytest.mark.parametrize("library", ["torch", "forklift"])
def test_two_epochs_at_once(library: str) -> None:
    loader = made(context_of(library), datasets.Numbers())
    for one, other in zip(loader, loader, strict=True):
        assert one[1].tolist() == other[1].tolist()


@pytest.mark.parametrize("library", ["torch", "forklift"])
def test_no_warning(library: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("error", ResourceWarning)
        assert len(list(made(context_of(library), datasets.Numbers()))) == 6

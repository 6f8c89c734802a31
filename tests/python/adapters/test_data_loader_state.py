"""state_dict() and load_state_dict() of forklift.adapters.torch.DataLoader: going on in mid-epoch."""

from __future__ import annotations

import io
from typing import Any

import loader_datasets as datasets
import pytest
from forklift.adapters.torch import DataLoader
from torch_support import torch

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")


def made(dataset: Any, **options: Any) -> Any:
    return DataLoader(dataset, **{"batch_size": 4, "num_workers": 2, **options})


def saved_and_loaded(state: Any) -> Any:
    """Through a file, as a checkpoint."""
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def generator() -> Any:
    return torch.Generator().manual_seed(11)


CASES: dict[str, tuple[Any, Any]] = {
    "sequential": (datasets.Noisy(40), dict),
    "shuffled": (datasets.Noisy(40), lambda: {"shuffle": True}),
    "generator": (datasets.Noisy(40), lambda: {"shuffle": True, "generator": generator()}),
    "sampler": (
        datasets.Noisy(40),
        lambda: {"sampler": torch.utils.data.RandomSampler(range(40), True, 40, generator())},
    ),
    "weighted": (
        datasets.Noisy(40),
        lambda: {"sampler": torch.utils.data.WeightedRandomSampler([*range(1, 41)], 40)},
    ),
    "strange": (datasets.Named(), lambda: {"sampler": datasets.Strange(), "batch_size": None}),
    "three-workers": (datasets.Noisy(46), lambda: {"shuffle": True, "num_workers": 3, "prefetch_factor": 4}),
    "persistent": (datasets.Noisy(40), lambda: {"shuffle": True, "persistent_workers": True}),
    "iterable": (datasets.Uneven((30, 3, 14)), lambda: {"num_workers": 3}),
    "iterable-persistent": (datasets.Uneven((21, 6)), lambda: {"persistent_workers": True}),
    "own-process": (datasets.Numbers(40, 3), lambda: {"shuffle": True, "num_workers": 0}),
    "own-process-iterable": (datasets.Uneven((30,)), lambda: {"num_workers": 0}),
}


@pytest.mark.parametrize("taken", [0, 1, 5, 8])
@pytest.mark.parametrize("name", CASES)
def test_going_on_in_mid_epoch(name: str, taken: int) -> None:
    dataset, options = CASES[name]
    torch.manual_seed(3)
    loader = made(dataset, **options())
    iterator = iter(loader)
    for _ in range(taken):
        next(iterator)
    state = saved_and_loaded(loader.state_dict())
    globals_then = torch.get_rng_state()
    rest = [datasets.plain(batch) for batch in iterator]
    if not loader.persistent_workers:
        torch.set_rng_state(globals_then)
    after = datasets.collected(loader)

    torch.manual_seed(99)  # another program
    successor = made(dataset, **options())
    successor.load_state_dict(state)
    before = torch.get_rng_state()
    resumed = iter(successor)
    assert torch.equal(before, torch.get_rng_state())  # the program's own numbers are not touched
    resumed_rest = [datasets.plain(batch) for batch in resumed]
    if name == "own-process-iterable":  # its random numbers are the program's own
        resumed_rest, rest = (
            [[row[0] for row in each[1][0][2]] for each in one] for one in (resumed_rest, rest)
        )
    assert resumed_rest == rest
    if name in ("generator", "sampler"):  # of the others the next order comes from the program's numbers
        torch.set_rng_state(globals_then)
        assert datasets.collected(successor) == after


def test_going_on_twice() -> None:
    torch.manual_seed(3)
    loader = made(datasets.Noisy(60), shuffle=True)
    whole = datasets.collected(loader)[0]
    torch.manual_seed(3)
    state, got = None, []
    for _ in range(5):
        loader = made(datasets.Noisy(60), shuffle=True)
        if state is not None:
            loader.load_state_dict(state)
        for turn, batch in enumerate(loader):
            got.append(datasets.plain(batch))
            if turn == 2:
                break
        state = saved_and_loaded(loader.state_dict())  # after the loop was left
    assert got == whole
    assert len(whole) == 15


def test_a_state_that_was_loaded_and_not_used_is_the_state() -> None:
    loader = made(datasets.Noisy(40), shuffle=True)
    for _ in loader:
        break
    state = loader.state_dict()
    other = made(datasets.Noisy(40), shuffle=True)
    other.load_state_dict(state)
    assert other.state_dict() is state
    iter(other)
    assert other.state_dict()["prefix"] == 1


def test_in_a_later_epoch_of_workers_that_stay() -> None:
    def loader() -> Any:
        return made(
            datasets.Noisy(40),
            shuffle=True,
            persistent_workers=True,
            generator=generator(),
            prefetch_factor=3,
        )

    one = loader()
    datasets.collected(one, 2)
    iterator = iter(one)
    for _ in range(4):
        next(iterator)
    state = saved_and_loaded(one.state_dict())
    rest = [datasets.plain(batch) for batch in iterator]
    rest += datasets.collected(one, 2)
    two = loader()
    two.load_state_dict(state)
    got = [datasets.plain(batch) for batch in two]
    got += datasets.collected(two, 2)
    assert got == rest


def test_loading_into_a_loader_that_is_running() -> None:
    loader = made(datasets.Noisy(40), shuffle=True, persistent_workers=True, generator=generator())
    iterator = iter(loader)
    for _ in range(3):
        next(iterator)
    state = loader.state_dict()
    rest = [datasets.plain(batch) for batch in iterator]
    for _ in range(2):
        loader.load_state_dict(state)
        assert [datasets.plain(batch) for batch in loader] == rest


def test_between_epochs() -> None:
    loader = made(datasets.Noisy(40), shuffle=True, generator=generator())
    datasets.collected(loader)
    state = saved_and_loaded(loader.state_dict())
    assert not state["open"]
    torch.manual_seed(5)
    after = datasets.collected(loader, 2)
    other = made(datasets.Noisy(40), shuffle=True, generator=torch.Generator())
    other.load_state_dict(state)
    assert datasets.collected(other, 2) == after


def test_out_of_order_every_batch_comes_once() -> None:
    loader = made(datasets.Noisy(80), shuffle=True, in_order=False, generator=generator())
    iterator = iter(loader)
    got = [next(iterator)[1].tolist() for _ in range(6)]
    state = saved_and_loaded(loader.state_dict())
    del iterator
    other = made(datasets.Noisy(80), shuffle=True, in_order=False, generator=generator())
    other.load_state_dict(state)
    got += [labels.tolist() for _, labels in other]
    assert sorted(each for labels in got for each in labels) == [*range(80)]


def test_a_state_of_another_loader_is_refused() -> None:
    loader = made(datasets.Noisy(40))
    iterator = iter(loader)
    next(iterator)
    state = loader.state_dict()
    for options, match in (
        ({"num_workers": 1}, "of 2 workers, the loader has 1"),
        ({"in_order": False}, "in_order=True"),
        ({"generator": generator()}, "other random generators"),
    ):
        with pytest.raises(ValueError, match=match):
            made(datasets.Noisy(40), **options).load_state_dict(state)
    with pytest.raises(ValueError, match="version 7"):
        loader.load_state_dict({**state, "version": 7})


def test_with_dead_workers(tmp_path: Any) -> None:
    """A worker that took a dead one's place has a state, too."""
    torch.manual_seed(3)
    whole = datasets.collected(made(datasets.Noisy(48)))[0]
    torch.manual_seed(3)
    dataset = datasets.Deadly(13, str(tmp_path))
    loader = made(dataset, on_worker_death="retry")
    for turn, batch in enumerate(loader):
        assert datasets.plain(batch) == whole[turn]
        other = made(dataset)
        other.load_state_dict(loader.state_dict())
        if turn in (3, 4, 5, 10):
            assert datasets.collected(other)[0] == whole[turn + 1 :]
    assert sum(each.restarts for each in loader.report().workers) == 1

"""forklift.collectives: values, frameworks, errors, deaths, forks, interrupts."""

from __future__ import annotations

import os
import signal
from typing import Any

import collective_targets as targets
import forklift
import forklift.collectives as dist
import forklift.multiprocessing as mp
import numpy as np
import pytest
from forklift import errors


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_the_ranks_of_every_start_method_are_a_group(method: str) -> None:
    mp.start_processes(targets.every_collective, ("numpy", 1000), nprocs=3, start_method=method)


@pytest.mark.parametrize("kind", ["forklift", "numpy", "gaps", "torch"])
@pytest.mark.parametrize("count", [1, 70_000])
def test_every_framework(kind: str, count: int) -> None:
    if kind == "torch":
        pytest.importorskip("torch")
    mp.start_processes(targets.every_collective, (kind, count), nprocs=2, start_method="fork")


def test_functions_are_applied_in_rank_order() -> None:
    mp.start_processes(targets.functions, nprocs=3, start_method="fork")


def test_mistakes_are_told_and_the_group_goes_on() -> None:
    mp.start_processes(targets.mistakes, nprocs=3, start_method="fork")


@pytest.mark.parametrize("target", [targets.lose_a_rank, targets.die_before_joining])
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_rank_that_ends(target: Any, method: str) -> None:
    if target is targets.die_before_joining and method == "fork":
        pytest.skip("a forked rank joins when it asks for the group; the parent's join() ends the others")
    told = mp.get_context(method).Queue()
    ranks = mp.start_processes(target, (told,), nprocs=3, join=False, start_method=method)
    assert ranks is not None
    assert sorted(told.get(timeout=60) for _ in range(2)) == [0, 2]
    for process in ranks.processes:
        process.join(60)


def test_a_child_of_a_rank_is_no_rank() -> None:
    mp.start_processes(targets.fork_in_a_rank, nprocs=2, start_method="fork")


def test_an_interrupt_ends_the_call_and_breaks_the_group() -> None:
    context = mp.get_context("fork")
    ready, told = context.Queue(), context.Queue()
    ranks = mp.start_processes(targets.interrupted, (ready, told), nprocs=2, join=False, start_method="fork")
    assert ranks is not None
    os.kill(ready.get(timeout=60), signal.SIGINT)
    while not ranks.join(60):
        pass


def test_a_group_made_by_hand() -> None:
    memory = dist.create(2)
    context = mp.get_context("spawn")
    sums = context.Queue()
    processes = [context.Process(target=targets.joined, args=(memory, rank, sums)) for rank in range(2)]
    for process in processes:
        process.start()
    assert [sums.get(timeout=60) for _ in processes] == [1.0, 1.0]
    for process in processes:
        process.join(60)
        assert process.exitcode == 0


def test_a_group_of_one() -> None:
    group = dist.join(dist.create(1), 0)
    x = np.arange(5.0)
    assert group.all_reduce(x, "mean") is x
    np.testing.assert_array_equal(x, np.arange(5.0))
    assert group.all_gather(forklift.tensor([1.0, 2.0])).shape == (1, 2)
    assert "rank 0 of 1" in repr(group)


def test_ranks_that_never_come() -> None:
    group = dist.join(dist.create(2), 0)
    with pytest.raises(TimeoutError, match="rank 1"):
        group.barrier(timeout=0.02)
    with pytest.raises(errors.BrokenGroupError, match="has waited longer"):
        group.barrier()


def test_what_is_no_group() -> None:
    with pytest.raises(errors.NotFoundError, match="no rank of a group"):
        dist.group()
    with pytest.raises(ValueError, match="1 to 1024"):
        dist.create(0)
    with pytest.raises(errors.CorruptError, match="no group's"):
        dist.join(forklift.zeros(100_000, "uint8"), 0)
    memory = dist.create(2)
    with pytest.raises(ValueError, match="from 0 to 1"):
        dist.join(memory, 2)
    first = dist.join(memory, 0)
    with pytest.raises(errors.NameTakenError, match="already"):
        dist.join(memory, 0)
    del first

"""`start_all`: several processes at once, as a loop of starts would start them."""

from __future__ import annotations

import multiprocessing
import pickle
from typing import Any

import forklift.multiprocessing
import fresh_targets
import pytest
from forklift.multiprocessing import start_all


@pytest.fixture(params=["fork", "spawn", "forkserver"])
def ctx(request: pytest.FixtureRequest) -> Any:
    return forklift.multiprocessing.get_context(request.param)


def _processes(ctx: Any, queue: Any, count: int) -> list[Any]:
    return [ctx.Process(target=fresh_targets.say_pid, args=(queue, i)) for i in range(count)]


def _end(processes: list[Any]) -> None:
    for process in processes:
        process.join()
        assert process.exitcode == 0


def test_all_run(ctx: Any) -> None:
    queue = ctx.SimpleQueue()
    processes = _processes(ctx, queue, 5)
    start_all(processes)
    answers = {number: (pid, parent) for number, pid, parent in (queue.get() for _ in processes)}
    assert {number: pid for number, (pid, _) in answers.items()} == {
        i: process.pid for i, process in enumerate(processes)
    }
    _end(processes)


def test_of_the_standard_library_as_well() -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=fresh_targets.nothing) for _ in range(2)]
    start_all(processes)
    _end(processes)


def test_none() -> None:
    start_all([])


def test_arguments_larger_than_pipes(ctx: Any) -> None:
    queue = ctx.SimpleQueue()
    data = bytes(3 << 20)
    processes = [ctx.Process(target=fresh_targets.length_of, args=(queue, data)) for _ in range(3)]
    start_all(processes)
    assert [queue.get() for _ in processes] == [len(data)] * 3
    _end(processes)


def test_those_before_one_that_fails_run(ctx: Any) -> None:
    queue = ctx.SimpleQueue()
    processes = _processes(ctx, queue, 4)
    processes[2].start()
    with pytest.raises(AssertionError, match="cannot start a process twice"):
        start_all(processes)
    assert sorted(queue.get()[0] for _ in range(3)) == [0, 1, 2]
    _end(processes[:3])
    assert processes[3].pid is None
    processes[3].start()  # a process that was not started can be
    assert queue.get()[:2] == (3, processes[3].pid)
    _end(processes[3:])


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_one_that_cannot_be_sent_is_not_started(method: str) -> None:
    context = forklift.multiprocessing.get_context(method)
    good, bad = context.Process(target=fresh_targets.nothing), context.Process(target=lambda: None)
    with pytest.raises((AttributeError, pickle.PicklingError)):
        start_all([good, bad])
    assert bad.pid is None
    assert bad not in multiprocessing.active_children()
    _end([good])

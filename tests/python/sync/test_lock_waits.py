"""Condition, Event, Barrier: as the standard library's, which is the control."""

from __future__ import annotations

import threading
import time
from typing import Any

import lock_targets
import pytest
import support


def test_condition_wakes_who_waits(ctx: Any) -> None:
    for condition in (ctx.Condition(), ctx.Condition(ctx.Lock())):
        ready, answer = ctx.Queue(), ctx.Queue()
        children = [
            ctx.Process(target=lock_targets.wait_on, args=(condition, ready, answer, 20)) for _ in range(3)
        ]
        for child in children:
            child.start()
        for _ in children:
            ready.get(timeout=support.DEADLINE)
        with condition:  # all three wait: they said so with the lock
            condition.notify()
        assert answer.get(timeout=support.DEADLINE) is True
        with condition:
            condition.notify_all()
        assert [answer.get(timeout=support.DEADLINE) for _ in range(2)] == [True, True]
        for child in children:
            child.join()
            assert child.exitcode == 0


def test_condition_by_itself(either: Any) -> None:
    condition = either.Condition()
    assert repr(condition) == "<Condition(<RLock(None, 0)>, 0)>"
    with pytest.raises(AssertionError, match="must acquire"):
        condition.wait()
    with pytest.raises(AssertionError, match="lock is not owned"):
        condition.notify()
    with condition, condition:  # both times given up, both times taken again
        for timeout in (0, -1, 0.01):
            assert condition.wait(timeout) is False
        assert condition._lock._semlock._count() == 2
        condition.notify(0)
        condition.notify(-1)
        condition.notify(3)
        condition.notify_all()
        assert condition.wait_for(lambda: 7) == 7
        assert condition.wait_for(lambda: 0, 0.01) == 0
        with pytest.raises(OSError, match="Invalid argument"):
            condition.wait(float("nan"))
    assert condition._lock._semlock._count() == 0
    with pytest.raises(AttributeError):
        either.Condition(3)


def test_condition_of_threads(either: Any) -> None:
    condition = either.Condition(either.Lock())
    items: list[int] = []
    got: list[int] = []

    def consume() -> None:
        with condition:
            assert condition.wait_for(lambda: bool(items), 20)
            got.append(items.pop())

    threads = [threading.Thread(target=consume) for _ in range(4)]
    for thread in threads:
        thread.start()
    for i in range(4):
        with condition:
            items.append(i)
            condition.notify()
    for thread in threads:
        thread.join()
    assert sorted(got) == [0, 1, 2, 3]


def test_event(either: Any) -> None:
    event = either.Event()
    assert event.is_set() is False
    assert event.wait(0.01) is False
    assert event.wait(-1) is False
    assert event.set() is None
    assert event.wait() is True
    assert event.wait(0) is True
    event.clear()
    assert event.is_set() is False
    threading.Timer(0.02, event.set).start()
    assert event.wait(20)


def test_event_between_processes(ctx: Any) -> None:
    event, answer = ctx.Event(), ctx.Queue()
    children = [ctx.Process(target=lock_targets.wait_event, args=(event, answer)) for _ in range(2)]
    for child in children:
        child.start()
    event.set()
    assert [answer.get(timeout=support.DEADLINE) for _ in children] == [True, True]
    for child in children:
        child.join()


def test_barrier_between_processes(ctx: Any) -> None:
    barrier, answer = ctx.Barrier(3, timeout=20), ctx.Queue()
    children = [ctx.Process(target=lock_targets.rounds, args=(barrier, 20, answer)) for _ in range(2)]
    for child in children:
        child.start()
    mine = [barrier.wait() for _ in range(20)]
    others = [answer.get(timeout=support.DEADLINE) for _ in children]
    for indices in zip(mine, *others, strict=True):
        assert sorted(indices) == [0, 1, 2]
    for child in children:
        child.join()
    assert barrier.n_waiting == 0
    assert barrier.parties == 3


def test_barrier_breaks(either: Any) -> None:
    acted: list[int] = []
    barrier = either.Barrier(2, lambda: acted.append(1))
    with pytest.raises(threading.BrokenBarrierError):
        barrier.wait(0.01)
    assert barrier.broken
    with pytest.raises(threading.BrokenBarrierError):
        barrier.wait()
    barrier.reset()
    assert not barrier.broken
    found: list[Any] = []

    def inside() -> None:
        try:
            found.append(barrier.wait())
        except threading.BrokenBarrierError:
            found.append("broken")

    for end in (barrier.abort, barrier.reset):
        thread = threading.Thread(target=inside)
        thread.start()
        support.until(lambda: barrier.n_waiting == 1, "the thread inside")
        end()
        thread.join()
        barrier.reset()
    assert found == ["broken", "broken"]
    thread = threading.Thread(target=inside)
    thread.start()
    assert barrier.wait(20) in (0, 1)
    thread.join()
    assert acted == [1]


def test_barrier_whose_action_fails(either: Any) -> None:
    def fail() -> None:
        raise LookupError("no")

    barrier = either.Barrier(1, fail)
    with pytest.raises(LookupError):
        barrier.wait()
    assert barrier.broken
    with pytest.raises(threading.BrokenBarrierError):
        barrier.wait()


def test_a_barrier_of_nobody(ctx: Any) -> None:
    """The standard library's would wait for ever."""
    for parties in (0, -1):
        with pytest.raises(ValueError, match="parties"):
            ctx.Barrier(parties)


def test_waits_use_no_processor(ctx: Any) -> None:
    event = ctx.Event()
    begin = time.process_time()
    assert not event.wait(1.0)
    assert time.process_time() - begin < 0.02

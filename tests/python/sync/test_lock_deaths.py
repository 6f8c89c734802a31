"""What happens to locks when processes die, and in the legal cases that look alike."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from typing import Any

import forklift
import lock_targets
import pytest
import support


def run(ctx: Any, target: Any, *args: Any) -> Any:
    child = ctx.Process(target=target, args=args)
    child.start()
    child.join()
    return child.exitcode


@pytest.mark.parametrize("kind", ["Lock", "RLock", "Condition"])
def test_a_killed_holder_is_taken_over(ctx: Any, kind: str) -> None:
    lock = getattr(ctx, kind)()
    inner = lock._lock if kind == "Condition" else lock
    assert run(ctx, lock_targets.hold_and_die, lock) == -signal.SIGKILL
    begin = time.monotonic()
    with pytest.warns(forklift.AbandonedLockWarning, match="was taken over: the process that held it died"):
        assert lock.acquire() is True
    assert time.monotonic() - begin < 1
    assert inner.abandoned
    lock.release()
    assert not inner.abandoned
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with lock:  # told once
            assert not inner.abandoned


def test_one_who_waits_takes_over(ctx: Any) -> None:
    lock, held, go = ctx.Lock(), ctx.Queue(), ctx.Queue()
    child = ctx.Process(target=lock_targets.hold_until, args=(lock, held, go))
    child.start()
    pid = held.get(timeout=support.DEADLINE)
    assert not lock.acquire(timeout=0.05)
    os.kill(pid, signal.SIGKILL)
    begin = time.monotonic()
    with pytest.warns(forklift.AbandonedLockWarning):
        assert lock.acquire(timeout=5)
    assert time.monotonic() - begin < 1
    lock.release()
    child.join()


def test_a_warning_that_is_an_error_gives_the_lock_back(ctx: Any) -> None:
    lock = ctx.Lock()
    run(ctx, lock_targets.hold_and_die, lock)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(forklift.AbandonedLockWarning):
            lock.acquire()
        assert not lock.locked()
        with lock:
            assert lock.locked()


def test_clean_exit_while_holding(either: Any) -> None:
    """Legal: another process releases."""
    lock = either.Lock()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run(either, lock_targets.hold_and_exit, lock) == 0
        forklift.reap()
        assert not lock.acquire(timeout=0.3)
        lock.release()
        assert lock.acquire(timeout=5)
        lock.release()


def test_clean_exit_of_a_spawned_holder(ctx: Any) -> None:
    lock = ctx.Lock()
    assert run(ctx, lock_targets.hold_and_exit, lock) == 0
    forklift.reap()
    assert not lock.acquire(timeout=0.3)
    lock.release()


def test_a_semaphore_used_as_a_signal(either: Any) -> None:
    """Acquired in one process, which is killed, and released in another."""
    semaphore = either.Semaphore(1)
    assert run(either, lock_targets.hold_and_die, semaphore) == -signal.SIGKILL
    forklift.reap()
    assert not semaphore.acquire(timeout=0.3)
    assert semaphore.get_value() == 0
    semaphore.release()
    assert semaphore.acquire(timeout=5)


def test_a_lock_used_as_a_signal(either: Any) -> None:
    """Released by a process that did not hold it: nobody owns it, so nobody's death frees it."""
    lock = either.Lock()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lock.acquire()
        assert run(either, lock_targets.release, lock) == 0
        assert run(either, lock_targets.hold_and_die, lock) == -signal.SIGKILL
        forklift.reap()
        assert not lock.acquire(timeout=0.3)
        lock.release()
        assert lock.acquire(timeout=5)
        lock.release()


def test_release_for_one_who_was_killed(either: Any) -> None:
    lock = either.Lock()
    assert run(either, lock_targets.hold_and_die, lock) == -signal.SIGKILL
    forklift.reap()
    lock.release()
    with pytest.raises(ValueError, match="released too many times"):
        lock.release()
    assert lock.acquire(timeout=5)
    lock.release()


def test_semaphores_that_recover(ctx: Any) -> None:
    semaphore = ctx.BoundedSemaphore(3, recover=True)
    run(ctx, lock_targets.take_units, semaphore, 2, True)
    begin = time.monotonic()
    for _ in range(3):
        assert semaphore.acquire(timeout=5)
    assert time.monotonic() - begin < 1
    assert not semaphore.acquire(False)
    for _ in range(3):
        semaphore.release()
    run(ctx, lock_targets.take_units, semaphore, 2, False)  # no death
    forklift.reap()
    assert semaphore.get_value() == 1
    semaphore.release()
    semaphore.release()
    with pytest.raises(ValueError, match="released too many times"):
        semaphore.release()


def test_a_killed_waiters_notification_goes_on(ctx: Any) -> None:
    condition, ready, answer = ctx.Condition(), ctx.Queue(), ctx.Queue()
    children = []
    for _ in range(2):
        child = ctx.Process(target=lock_targets.wait_on, args=(condition, ready, answer, 20))
        child.start()
        assert ready.get(timeout=support.DEADLINE) == child.pid
        with condition:  # it waits
            children.append(child)
    with condition:
        os.kill(children[0].pid, signal.SIGSTOP)
        condition.notify()  # the first one's
        os.kill(children[0].pid, signal.SIGKILL)
    assert answer.get(timeout=support.DEADLINE) is True
    for child in children:
        child.join()
    assert children[1].exitcode == 0


def test_a_barrier_breaks_with_its_party(ctx: Any) -> None:
    barrier, answer = ctx.Barrier(3), ctx.Queue()
    children = [ctx.Process(target=lock_targets.wait_barrier, args=(barrier, answer)) for _ in range(2)]
    for child in children:
        child.start()
    support.until(lambda: barrier.n_waiting == 2, "both inside")
    children[0].kill()
    assert answer.get(timeout=5) == "broken"
    assert barrier.broken
    for child in children:
        child.join()
    barrier.reset()
    assert not barrier.broken


def test_a_barrier_breaks_for_a_party_that_was_killed_between_rounds(ctx: Any) -> None:
    barrier, answer = ctx.Barrier(2), ctx.Queue()
    child = ctx.Process(target=lock_targets.one_round, args=(barrier, answer))
    child.start()
    barrier.wait(support.DEADLINE)
    os.kill(answer.get(timeout=support.DEADLINE), signal.SIGKILL)
    child.join()
    with pytest.raises(threading.BrokenBarrierError):
        barrier.wait(support.DEADLINE)
    assert barrier.broken
    barrier.reset()
    again = ctx.Process(target=lock_targets.one_round_and_leave, args=(barrier,))
    again.start()
    barrier.wait(support.DEADLINE)
    again.join()
    assert again.exitcode == 0


def test_a_barrier_is_whole_after_a_clean_exit_between_rounds(ctx: Any) -> None:
    barrier = ctx.Barrier(2)
    for _ in range(2):
        child = ctx.Process(target=lock_targets.one_round_and_leave, args=(barrier,))
        child.start()
        barrier.wait(support.DEADLINE)
        child.join()
        assert child.exitcode == 0
    assert not barrier.broken

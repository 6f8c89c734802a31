"""Queues, locks and their kin, processes and groups of them, between the nodes of a Ray cluster."""

from __future__ import annotations

import itertools
import os
import queue
import signal
import time
from pathlib import Path
from typing import Any

import forklift
import forklift.multiprocessing as mp
import pytest
import ray_targets as targets
import support


@pytest.fixture(scope="module")
def context(cluster: Any) -> Any:
    return mp.get_context("ray")


def test_queues_in_messages_and_by_the_initializer(context: Any) -> None:
    inbox, outbox = context.Queue(), context.JoinableQueue(100)
    with context.Pool(2, targets.keep, (inbox,)) as pool:
        for i in range(10):
            inbox.put({"number": i})
        got = pool.map(targets.take_and_put, [outbox] * 10, 1)
        assert sorted(got) == list(range(10))
        assert sorted(outbox.get(timeout=support.DEADLINE) for _ in range(10)) == [i * i for i in range(10)]
        for _ in range(10):
            outbox.task_done()
        outbox.join()
    assert inbox.empty()
    with pytest.raises(queue.Empty):
        inbox.get(timeout=0.05)
    with pytest.raises(queue.Empty):
        inbox.get_nowait()
    bounded = context.Queue(1)
    bounded.put(targets.Point(3))
    assert bounded.full()
    with pytest.raises(queue.Full):
        bounded.put(1, timeout=0.05)
    assert bounded.get() == targets.Point(3)
    bounded.close()
    bounded.join_thread()


def test_events_semaphores_conditions_and_barriers(context: Any) -> None:
    event, barrier, condition = context.Event(), context.Barrier(2), context.Condition()
    semaphore = context.BoundedSemaphore(1)
    assert not event.wait(0.01)
    with context.Pool(2) as pool:
        waiting = pool.map_async(targets.wait_for, [(event, barrier)] * 2, 1)
        time.sleep(0.05)
        assert not waiting.ready()
        event.set()
        assert sorted(waiting.get(support.DEADLINE)) == [0, 1]
        assert semaphore.acquire()
        assert pool.apply(targets.try_to_acquire, (semaphore,)) is False
        semaphore.release()
        with condition:
            told = pool.apply_async(targets.notify, (condition,))
            assert condition.wait(support.DEADLINE)
        told.get(support.DEADLINE)
    with pytest.raises(forklift.NotAcrossNodesError, match="own lock"):
        context.Condition(context.Lock())


def test_locks(context: Any) -> None:
    lock, again = context.Lock(), context.RLock()
    with context.Pool(1) as pool:
        with lock, again, again:
            assert pool.apply(targets.try_to_acquire, (lock,)) is False
            assert pool.apply(targets.try_to_acquire, (again,)) is False
        assert pool.apply(targets.try_to_acquire, (lock,)) is True
        assert pool.apply(targets.try_to_acquire, (again,)) is True
    with pytest.raises(ValueError, match="released too many times"):
        lock.release()
    with pytest.raises(AssertionError, match="not owned"):
        again.release()


def test_a_killed_holder_leaves_a_warning(context: Any) -> None:
    lock = context.Lock()
    with context.Pool(1) as pool:
        with pytest.raises(forklift.WorkerDiedError):
            pool.apply(targets.acquire_and_die, (lock,))
        with pytest.warns(forklift.AbandonedLockWarning):
            assert lock.acquire(timeout=support.DEADLINE)
        lock.release()
        assert lock.acquire()  # without a warning
        lock.release()


def test_a_manager_of_its_own(context: Any) -> None:
    with context.Manager() as manager, context.Pool(2) as pool:
        shared, value = manager.dict(), manager.Value("i", 3)
        pool.map(targets.enter, [(shared, i) for i in range(6)], 1)
        assert dict(shared) == {i: i * i for i in range(6)}
        assert value.value == 3


def test_a_process(context: Any, tmp_path: Path) -> None:
    outbox = context.Queue()
    process = context.Process(
        target=targets.report, args=(outbox,), kwargs={"word": "hello"}, name="reporter"
    )
    assert process.exitcode is None
    process.start()
    pid, name, word = outbox.get(timeout=support.DEADLINE)
    assert (name, word) == ("reporter", "hello")
    assert process.pid == pid != os.getpid()
    process.join(support.DEADLINE)
    assert process.exitcode == 0
    assert not process.is_alive()
    process.close()


def test_a_process_ends_with_its_actor(context: Any) -> None:
    process = context.Process(target=targets.nap, args=(300,))
    process.start()
    _, _, host = itertools.islice(targets.ancestors(process.pid), 3)  # between them is its fork server
    os.kill(host, signal.SIGKILL)
    support.until(lambda: not targets.alive(process.pid), "the process ends")
    process.join(support.DEADLINE)
    assert process.exitcode == -signal.SIGKILL


def test_exit_codes(context: Any) -> None:
    left = context.Process(target=targets.leave, args=(3,))
    sleeper = context.Process(target=targets.nap, args=(300,))
    stubborn = context.Process(target=targets.nap, args=(300,))
    for each in (left, sleeper, stubborn):
        each.start()
    left.join(support.DEADLINE)
    assert left.exitcode == 3
    assert sleeper.is_alive()
    sleeper.terminate()
    stubborn.kill()
    for each, code in ((sleeper, -signal.SIGTERM), (stubborn, -signal.SIGKILL)):
        each.join(support.DEADLINE)
        assert each.exitcode == code
    with pytest.raises(forklift.NotAcrossNodesError, match="join"):
        _ = sleeper.sentinel


@pytest.mark.weekly
def test_spawn(context: Any, tmp_path: Path) -> None:
    assert context.spawn(targets.write_rank, (str(tmp_path),), nprocs=2) is None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rank-0", "rank-1"]


def test_a_group_stops_at_the_first_failure(context: Any) -> None:
    from forklift.multiprocessing.spawn import ProcessRaisedException

    group = context.spawn(targets.fail_at_one, nprocs=2, join=False)
    with pytest.raises(ProcessRaisedException, match="rank one fails") as caught:
        group.join()
    assert caught.value.error_index == 1
    assert isinstance(caught.value.__cause__, ValueError)
    assert not any(each.is_alive() for each in group.processes)

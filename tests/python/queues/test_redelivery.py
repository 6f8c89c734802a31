"""JoinableQueue(redeliver=True): what a process got and had not done comes back when it ends."""

from __future__ import annotations

import queue as queue_module
import random
import signal
import threading
from typing import Any

import forklift
import forklift.multiprocessing as mp
import numpy as np
import pytest
import redelivery_targets as targets
import support


def start(ctx: Any, target: Any, *args: Any) -> Any:
    child = ctx.Process(target=target, args=args, daemon=True)
    child.start()
    return child


def kill(child: Any) -> None:
    child.kill()
    child.join(support.DEADLINE)
    assert child.exitcode == -signal.SIGKILL


def take(queue: Any) -> Any:
    item = queue.get(timeout=support.DEADLINE)
    queue.task_done()
    return item


def test_what_is_done_is_gone() -> None:
    queue = mp.JoinableQueue(redeliver=True)
    for item in range(3):
        queue.put(item)
    assert [queue.get(), queue.get()] == [0, 1]
    assert queue.unacknowledged() == 2
    queue.task_done()
    queue.give_back()
    assert [take(queue), take(queue)] == [1, 2]
    with pytest.raises(ValueError, match="task_done"):
        queue.task_done()
    with pytest.raises(ValueError, match="give_back"):
        queue.give_back()
    with pytest.raises(queue_module.Empty):
        queue.get_nowait()
    assert queue.unacknowledged() == 0
    queue.join()


def test_a_killed_consumer_gives_back(ctx: Any) -> None:
    queue, taken = ctx.JoinableQueue(redeliver=True), ctx.Queue()
    for item in range(4):
        queue.put(item)
    child = start(ctx, targets.take_and_wait, queue, 3, taken)
    assert [taken.get(timeout=support.DEADLINE) for _ in range(3)] == [0, 1, 2]
    assert take(queue) == 3
    kill(child)
    assert [take(queue) for _ in range(3)] == [0, 1, 2]
    queue.join()


def test_a_consumer_that_ends_gives_back(ctx: Any) -> None:
    queue, taken = ctx.JoinableQueue(redeliver=True), ctx.Queue()
    queue.put("job")
    child = start(ctx, targets.take_and_leave, queue, taken)
    child.join(support.DEADLINE)
    assert child.exitcode == 0
    assert taken.get(timeout=support.DEADLINE) == "job"
    assert take(queue) == "job"


def test_join_waits_until_somebody_has_done_it(ctx: Any) -> None:
    queue, taken, done = ctx.JoinableQueue(redeliver=True), ctx.Queue(), ctx.Queue()
    queue.put("job")
    child = start(ctx, targets.take_and_wait, queue, 1, taken)
    taken.get(timeout=support.DEADLINE)
    joined = threading.Event()

    def join() -> None:
        queue.join()
        joined.set()

    thread = threading.Thread(target=join)
    thread.start()
    assert not joined.wait(0.2)
    kill(child)
    worker = start(ctx, targets.work, queue, done)
    assert done.get(timeout=support.DEADLINE) == "job"
    assert joined.wait(support.DEADLINE)
    queue.put(None)
    queue.join()
    thread.join()
    worker.join(support.DEADLINE)


def test_many_kills_and_no_job_is_lost(ctx: Any) -> None:
    """Workers are killed at random; each job is done at least once, and join() returns when all are."""
    queue, done = ctx.JoinableQueue(redeliver=True), ctx.Queue()
    jobs = 2_000
    for job in range(jobs):
        queue.put(job)
    dice = random.Random(20261124)
    seen: set[int] = set()
    workers = [start(ctx, targets.work, queue, done) for _ in range(2)]
    for _ in range(6):
        for _ in range(dice.randrange(5, 60)):
            seen.add(done.get(timeout=support.DEADLINE))
        victim = dice.randrange(len(workers))
        kill(workers[victim])
        workers[victim] = start(ctx, targets.work, queue, done)
    while len(seen) < jobs:
        seen.add(done.get(timeout=support.DEADLINE))
    queue.join()
    assert seen == set(range(jobs))
    for _ in workers:
        queue.put(None)
    for worker in workers:
        worker.join(support.DEADLINE)


@pytest.mark.parametrize("size", [10, 100_000], ids=["small", "in a block"])
def test_an_array_comes_back_as_it_was_put(ctx: Any, size: int) -> None:
    queue, taken = ctx.JoinableQueue(redeliver=True), ctx.Queue()
    queue.put(np.arange(size))
    child = start(ctx, targets.modify_and_wait, queue, taken)
    taken.get(timeout=support.DEADLINE)
    kill(child)
    array = queue.get(timeout=support.DEADLINE)
    assert np.array_equal(array, np.arange(size))
    array[:] = 0  # private and writable
    queue.give_back()
    assert np.array_equal(take(queue), np.arange(size))


def test_dead_letters() -> None:
    failed: Any = mp.Queue()
    queue = mp.JoinableQueue(redeliver=True, tries=2, dead_letters=failed)
    queue.put({"poison": np.arange(50_000)})
    queue.put("food")
    for _ in range(2):
        assert "poison" in queue.get()
        queue.give_back()
    assert take(queue) == "food"
    assert np.array_equal(failed.get(timeout=support.DEADLINE)["poison"], np.arange(50_000))
    queue.join()
    dropping = mp.JoinableQueue(redeliver=True, tries=1)
    dropping.put("poison")
    dropping.get()
    dropping.give_back()
    with pytest.raises(queue_module.Empty):
        dropping.get_nowait()
    assert (dropping.dropped(), queue.dropped()) == (1, 0)


def test_what_cannot_be_unpickled_goes_back_and_becomes_a_dead_letter() -> None:
    failed: Any = mp.Queue()
    queue = mp.JoinableQueue(redeliver=True, tries=2, dead_letters=failed)
    queue.put(targets.CannotBeUnpickled())
    for _ in range(2):
        with pytest.raises(RuntimeError, match="not here"):
            queue.get()
    with pytest.raises(queue_module.Empty):
        queue.get_nowait()
    with pytest.raises(RuntimeError, match="not here"):
        failed.get()


def test_a_forked_child_has_no_claims() -> None:
    ctx = mp.get_context("fork")
    queue, answers = ctx.JoinableQueue(redeliver=True), ctx.Queue()
    queue.put(1)
    queue.get()
    child = start(ctx, targets.not_my_claim, queue, answers)
    assert [answers.get(timeout=support.DEADLINE) for _ in range(2)] == ["ValueError", "ValueError"]
    child.join(support.DEADLINE)
    assert queue.unacknowledged() == 1
    queue.task_done()


def test_each_thread_ends_its_own() -> None:
    queue = mp.JoinableQueue(redeliver=True)
    queue.put("mine")
    queue.put("other's")
    assert targets.claims_of_threads(queue) == ["mine", "ValueError", "other's"]
    assert queue.unacknowledged() == 0


def test_a_queue_that_is_shut_down_ends_when_all_is_done() -> None:
    queue = mp.JoinableQueue(redeliver=True)
    queue.put(1)
    queue.get()
    queue.shutdown()
    with pytest.raises(queue_module.Empty):  # it may come back
        queue.get_nowait()
    queue.give_back()
    assert take(queue) == 1
    with pytest.raises(forklift.FinishedError):
        queue.get()


def test_wrong_arguments() -> None:
    with pytest.raises(ValueError, match="redeliver=True"):
        mp.JoinableQueue(tries=3)
    with pytest.raises(ValueError, match="tries=4096"):
        mp.JoinableQueue(redeliver=True, tries=4096)
    with pytest.raises(ValueError, match="claims=0"):
        mp.JoinableQueue(redeliver=True, claims=0)
    with pytest.raises(TypeError, match="queue of forklift"):
        mp.JoinableQueue(redeliver=True, dead_letters=queue_module.Queue())  # type: ignore[arg-type]
    queue = mp.JoinableQueue(redeliver=True, claims=1)
    queue.put(1)
    queue.put(2)
    queue.get()
    with pytest.raises(Exception, match="claimed 1 messages"):
        queue.get_nowait()
    queue.task_done()
    assert take(queue) == 2
    plain = mp.JoinableQueue()
    with pytest.raises(ValueError, match="give_back"):
        plain.give_back()
    assert (plain.unacknowledged(), plain.dropped()) == (0, 0)


def test_aget_claims() -> None:
    import asyncio

    queue = mp.JoinableQueue(redeliver=True)
    queue.put("job")
    assert asyncio.run(queue.aget(timeout=support.DEADLINE)) == "job"
    queue.give_back()
    assert take(queue) == "job"


def test_its_descriptor_is_readable_when_something_came_back() -> None:
    from forklift.multiprocessing.connection import wait

    queue = mp.JoinableQueue(redeliver=True)
    queue.put("job")
    queue.get()
    assert wait([queue._reader], timeout=0) == []
    queue.give_back()
    assert wait([queue._reader], timeout=support.DEADLINE) == [queue._reader]
    assert take(queue) == "job"


def test_by_name() -> None:
    """A queue that was opened by its name claims, too."""
    queue = mp.JoinableQueue(redeliver=True)
    domain = forklift.own_domain()
    domain.publish("redelivered", queue)
    try:
        opened = domain.open("redelivered")
        assert isinstance(opened, mp.queues.JoinableQueue)
        opened.put("job")
        assert opened.get() == "job"
        assert queue.unacknowledged() == 1
        opened.give_back()
        assert take(queue) == "job"
    finally:
        domain.unpublish("redelivered")

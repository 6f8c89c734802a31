"""Signals, kills, aborts, destructors: what interrupts a put or a get."""

from __future__ import annotations

import gc
import os
import pickle
import queue as queue_module
import resource
import signal
import time
from collections.abc import Iterator
from typing import Any

import forklift
import numpy as np
import pytest
import support
import targets
from forklift.multiprocessing import JoinableQueue, Queue, get_context

# --- signals


class Alarm(Exception):
    pass


@pytest.fixture
def alarm() -> Iterator[Any]:
    def handler(_number: int, _frame: Any) -> None:
        raise Alarm

    before = signal.signal(signal.SIGALRM, handler)
    yield lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("seconds", [0.001, 0.05, 0.15])
def test_a_handler_that_raises_during_get(alarm: Any, seconds: float) -> None:
    queue = Queue()
    start = time.monotonic()
    alarm(seconds)
    with pytest.raises(Alarm):
        queue.get()
    assert time.monotonic() - start < seconds + 2
    support.works(queue)
    assert queue.empty()
    alarm(seconds)
    with pytest.raises(Alarm):
        queue._reader.poll(None)


def test_a_handler_that_raises_during_put(alarm: Any) -> None:
    queue = Queue(1)
    queue.put("first")
    alarm(0.05)
    with pytest.raises(Alarm):
        queue.put(np.zeros(100_000))
    assert queue.get(timeout=5) == "first"
    assert queue.empty()  # the interrupted put left nothing
    support.works(queue)
    joinable = JoinableQueue()
    joinable.put(1)
    alarm(0.05)
    with pytest.raises(Alarm):
        joinable.join()


def test_a_handler_that_raises_while_memory_is_waited_for(alarm: Any, small_budget: int) -> None:
    queue = Queue()
    held = []
    array = np.zeros(16 << 20, dtype="u1")
    with pytest.raises(forklift.OverBudgetError):  # noqa: PT012
        while True:
            queue.put_nowait(array)
    alarm(0.05)
    with pytest.raises(Alarm):
        queue.put(array)
    while not queue.empty():
        held.append(queue.get())
    held.clear()
    support.works(queue)


def test_handlers_run_while_a_get_waits_and_the_get_goes_on() -> None:
    queue = Queue()
    ran = []
    before = signal.signal(signal.SIGALRM, lambda *_: ran.append(queue.put("from the handler")))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        assert queue.get(timeout=20) == "from the handler"
    finally:
        signal.signal(signal.SIGALRM, before)
    assert ran == [None]


@pytest.mark.usefixtures("alarm")
def test_alarms_at_any_moment_lose_and_double_nothing() -> None:
    """A producer's numbers arrive in order, whatever was interrupted."""
    queue = Queue(4)
    producer = get_context("fork").Process(target=targets.put_all, args=(queue, range(3000)))
    producer.start()
    got: list[int] = []
    armed = False

    def handler(_number: int, _frame: Any) -> None:
        if armed:
            raise Alarm

    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.0007, 0.0007)
    while got[-1:] != [2999] and not (producer.exitcode is not None and queue.empty()):
        value = None
        try:
            armed = True
            value = queue.get(timeout=1)
            armed = False
        except (Alarm, queue_module.Empty):
            armed = False
        if value is not None:
            got.append(value)
    signal.setitimer(signal.ITIMER_REAL, 0)
    producer.join()
    lost = set(range(3000)) - set(got)
    # A handler may run between the return of get() and the assignment: those are the program's.
    assert len(lost) < 300
    assert got == sorted(set(got))


# --- destructors, aborts


class PutsWhenDropped:
    def __init__(self, queue: Any) -> None:
        self.queue = queue

    def __del__(self) -> None:
        self.queue.put("dropped")


def test_put_from_a_destructor() -> None:
    queue = Queue()
    for _ in range(3):
        cycle: list[Any] = [PutsWhenDropped(queue)]
        cycle.append(cycle)
        del cycle
    gc.collect()
    assert [queue.get(timeout=5) for _ in range(3)] == ["dropped"] * 3
    thing = PutsWhenDropped(queue)
    queue.put([thing.__class__.__name__, np.zeros(50_000)])
    del thing
    queue.get(timeout=5)
    assert queue.get(timeout=5) == "dropped"


def own_memory() -> int:
    """What this process, and so a forked child, has of its own: tests that ran before may have left much."""
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:"))


def test_core_dumps_are_small_and_an_abort_stalls_nobody(tmp_path: Any) -> None:
    context = get_context("fork")
    queue, ready = context.Queue(4), context.Queue()
    child = context.Process(target=targets.abort_while_putting, args=(queue, ready, str(tmp_path)))
    child.start()
    ready.get(timeout=10)
    start = time.monotonic()
    while child.exitcode is None and time.monotonic() - start < 30:
        try:
            queue.get(timeout=0.1)
        except queue_module.Empty:
            child.join(0)
    child.join(10)
    assert child.exitcode == -signal.SIGABRT
    forklift.reap()
    while not queue.empty():
        queue.get()
    support.works(queue)
    assert time.monotonic() - start < 30
    for core in tmp_path.iterdir():
        # Of the segments, which are mapped by the terabyte, nothing is dumped.
        assert core.stat().st_blocks * 512 < own_memory() + (300 << 20)


@pytest.mark.parametrize("when", ["getting", "putting"])
def test_a_killed_process_holds_up_nobody(ctx: Any, when: str) -> None:
    queue, ready = ctx.Queue(8), ctx.Queue()
    target = targets.block_in_get if when == "getting" else targets.put_for_ever
    arguments = (queue, ready) if when == "getting" else (queue, np.zeros(20_000))
    for _ in range(5):
        child = ctx.Process(target=target, args=arguments)
        child.start()
        if when == "getting":
            ready.get(timeout=20)
        else:
            support.until(queue.full, "a full queue")
        child.kill()
        child.join(support.DEADLINE)
        assert child.exitcode == -signal.SIGKILL
        while not queue.empty():
            queue.get(timeout=5)
        support.works(queue)


def test_few_descriptors_are_enough() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(support.descriptors())
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 3, hard))
    try:
        queues = [Queue() for _ in range(50)]
        for queue in queues:
            support.works(queue)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_no_descriptor_left_for_a_child_is_an_error_not_a_hang() -> None:
    context = get_context("spawn")
    queue = context.Queue()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(support.descriptors()) + 20, hard))
    taken = []
    try:
        while True:
            try:
                taken.append(os.open("/dev/null", os.O_RDONLY))
            except OSError:
                break
        with pytest.raises(OSError, match="Too many open files"):
            context.Process(target=targets.put_one, args=(queue, 1)).start()
    finally:
        for fd in taken:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    support.works(queue)


def test_a_received_array_pickles_like_any_other() -> None:
    queue = Queue()
    queue.put(np.arange(100_000))
    array = queue.get(timeout=5)
    assert (pickle.loads(pickle.dumps(array, 5)) == array).all()

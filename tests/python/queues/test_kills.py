"""SIGKILL in the middle of what programs do. docs/reliability.md has the standard library's outcome."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import queue as queue_module
import signal
import time
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import forklift
import kill_targets
import pytest
import support

KINDS = ("Queue", "JoinableQueue", "SimpleQueue")
SIZES = {"10B": 10, "20KB": 20_000, "1MB": 1_000_000}
ROUNDS = 4


def take_now(queue: Any) -> Any:
    """What is there at once; None if nothing."""
    if queue.empty():
        return None
    try:
        return queue.get() if not hasattr(queue, "get_nowait") else queue.get(timeout=5)
    except queue_module.Empty:
        return None


def receive(receiver: Any) -> Any:
    """None at the end."""
    try:
        return receiver.recv()
    except EOFError:
        return None


def start(ctx: Any, target: Any, *args: Any) -> Any:
    child = ctx.Process(target=target, args=args, daemon=True)
    child.start()
    return child


def kill(child: Any) -> None:
    child.kill()
    child.join(support.DEADLINE)
    assert child.exitcode == -signal.SIGKILL


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_process_that_loops_put(ctx: Any, kind: str, size: str) -> None:
    """What it had put is there, each once and in order; others go on at both ends."""
    queue = getattr(ctx, kind)()
    for round_ in range(ROUNDS):
        writer = start(ctx, kill_targets.put_numbered, queue, SIZES[size])
        expected = 0
        for _ in range(5 + round_):  # killed at another moment each time
            number, payload = queue.get()
            assert (number, len(payload)) == (expected, SIZES[size])
            expected += 1
        kill(writer)
        while (message := take_now(queue)) is not None:
            assert (message[0], len(message[1])) == (expected, SIZES[size])
            expected += 1
    other = start(ctx, kill_targets.put_one, queue, "from another")
    assert queue.get() == "from another"
    other.join(support.DEADLINE)


@pytest.mark.parametrize("kind", KINDS)
def test_a_process_that_is_blocked_in_get(ctx: Any, kind: str) -> None:
    """It has taken nothing; whoever gets next gets what is put next."""
    queue, ready = getattr(ctx, kind)(), ctx.Event()
    for i in range(ROUNDS):
        ready.clear()
        reader = start(ctx, kill_targets.get_one, queue, ready)
        assert ready.wait(support.DEADLINE)
        time.sleep(0.02 * i)
        kill(reader)
        queue.put(i)
        assert queue.get() == i
        queue.put([i] * 100_000)
        assert len(queue.get()) == 100_000


@pytest.mark.parametrize("kind", KINDS)
def test_a_process_that_loops_get(ctx: Any, kind: str) -> None:
    """At most one message dies with it, and the order of the others stays."""
    queue, ready = getattr(ctx, kind)(), ctx.Event()
    reader = start(ctx, kill_targets.get_for_ever, queue, ready)
    for i in range(200):
        queue.put(i)
    assert ready.wait(support.DEADLINE)
    kill(reader)
    queue.put("last")
    left = []
    while (message := queue.get()) != "last":
        left.append(message)
    assert left == list(range(200 - len(left), 200))
    assert queue.empty()


def test_a_worker_of_an_executor(ctx: Any) -> None:
    """As in the standard library: every pending call fails, and the next executor works."""
    for _ in range(2):
        with concurrent.futures.ProcessPoolExecutor(2, mp_context=ctx) as executor:
            assert list(executor.map(abs, [-1, -2])) == [1, 2]
            running = [executor.submit(time.sleep, 60) for _ in range(3)]
            support.until(lambda futures=running: futures[0].running(), "a call at work")
            os.kill(next(iter(executor._processes)), signal.SIGKILL)
            for future in running:
                with pytest.raises(BrokenProcessPool):
                    future.result(support.DEADLINE)
            with pytest.raises(BrokenProcessPool):
                executor.submit(abs, 1)
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=ctx) as executor:
        assert executor.submit(abs, -3).result(support.DEADLINE) == 3


@pytest.mark.parametrize("kind", ["Lock", "RLock", "Condition", "Semaphore"])
def test_the_holder_of_a_lock(ctx: Any, kind: str) -> None:
    """With the one who waits for it meanwhile; test_lock_deaths has the rest."""
    lock = ctx.Semaphore(1, recover=True) if kind == "Semaphore" else getattr(ctx, kind)()
    held, answer = ctx.Event(), ctx.Queue()
    holder = start(ctx, kill_targets.hold, lock, held)
    assert held.wait(support.DEADLINE)
    waiter = start(ctx, kill_targets.acquire_and_tell, lock, answer)
    assert answer.get(timeout=support.DEADLINE) == "waits"
    kill(holder)
    assert answer.get(timeout=5) == "has it"
    waiter.join(support.DEADLINE)
    assert waiter.exitcode == 0


def test_one_who_writes_into_a_pipe(ctx: Any) -> None:
    """The other end gets every whole message, then the end."""
    for size in SIZES.values():
        receiver, sender = ctx.Pipe(duplex=False)
        writer = start(ctx, kill_targets.send_numbered, sender, size)
        sender.close()
        expected = 0
        for _ in range(4):
            number, payload = receiver.recv()
            assert (number, len(payload)) == (expected, size)
            expected += 1
        kill(writer)
        for number, payload in iter(lambda end=receiver: receive(end), None):
            assert (number, len(payload)) == (expected, size)
            expected += 1
        receiver.close()


def test_everything_comes_back(ctx: Any) -> None:
    """Blocks, queues and locks that only a killed process had."""
    forklift.reap()
    before = forklift.stats()
    ready = ctx.Event()
    child = start(ctx, kill_targets.own_things, ready)
    assert ready.wait(support.DEADLINE)
    kill(child)
    del ready, child
    forklift.reap()
    after = forklift.stats()
    for name in ("blocks", "leases", "queues", "processes"):
        assert after[name] <= before[name], name
    assert not multiprocessing.active_children()

"""Functions that the children of the lock tests run; fresh interpreters import them from here."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import forklift.multiprocessing


def add_to(numbers: Any, lock: Any, count: int) -> None:
    """Add to a number in shared memory that only the lock protects."""
    view = numbers.numpy()
    for _ in range(count):
        with lock:
            view[0] += 1


def add(lock: Any, queue: Any, count: int) -> None:
    add_to(queue.get(), lock, count)


def report_owner(lock: Any, answer: Any) -> None:
    answer.put((repr(lock), lock._semlock._is_mine(), lock._semlock._count(), lock.acquire(False)))


def hold_and_die(lock: Any) -> None:
    lock.acquire()
    os.kill(os.getpid(), signal.SIGKILL)


def pass_on(lock: Any) -> None:
    """To a fresh interpreter, as an object that came by a message or by a fork may be."""
    child = forklift.multiprocessing.get_context("spawn").Process(target=repr, args=(lock,))
    child.start()
    child.join()
    assert child.exitcode == 0


def hold_and_exit(lock: Any) -> None:
    lock.acquire()


def hold_until(lock: Any, held: Any, go: Any) -> None:
    with lock:
        held.put(os.getpid())
        go.get()


def release(lock: Any) -> None:
    lock.release()


def wait_on(condition: Any, ready: Any, answer: Any, timeout: float | None) -> None:
    with condition:
        ready.put(os.getpid())
        answer.put(condition.wait(timeout))


def wait_event(event: Any, answer: Any) -> None:
    answer.put(event.wait(20))


def rounds(barrier: Any, count: int, answer: Any) -> None:
    answer.put([barrier.wait(20) for _ in range(count)])


def wait_barrier(barrier: Any, answer: Any) -> None:
    try:
        answer.put(barrier.wait(20))
    except threading.BrokenBarrierError:
        answer.put("broken")


def take_units(semaphore: Any, count: int, die: bool) -> None:
    for _ in range(count):
        semaphore.acquire()
    if die:
        os.kill(os.getpid(), signal.SIGKILL)


def one_round(barrier: Any, answer: Any) -> None:
    """Take part in one round, then sleep until killed."""
    barrier.wait(20)
    answer.put(os.getpid())
    signal.pause()


def one_round_and_leave(barrier: Any) -> None:
    barrier.wait(20)

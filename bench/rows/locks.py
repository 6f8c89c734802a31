"""Locks: uncontended, contended, making one; and what else a program waits on."""

from __future__ import annotations

import time
from typing import Any

from rows.spec import Library, Row, Scale

WARM_UP = 500


def _turns(lock: Any, count: int) -> float:
    """Nanoseconds of one acquire and release, including the loop around them."""
    acquire, release = lock.acquire, lock.release
    begin = time.perf_counter()
    for _ in range(count):
        acquire()
        release()
    return (time.perf_counter() - begin) / count * 1e9


def lock(library: Library, scale: Scale) -> float:
    one = library.context().Lock()
    _turns(one, WARM_UP)
    return _turns(one, scale.count(300_000))


def rlock(library: Library, scale: Scale) -> float:
    one = library.context().RLock()
    _turns(one, WARM_UP)
    return _turns(one, scale.count(300_000))


def lock_with(library: Library, scale: Scale) -> float:
    one = library.context().Lock()
    count = scale.count(300_000)
    begin = time.perf_counter()
    for _ in range(count):
        with one:
            pass
    return (time.perf_counter() - begin) / count * 1e9


def _contend(one: Any, barrier: Any, count: int, done: Any) -> None:
    _turns(one, WARM_UP)
    barrier.wait()
    done.send(_turns(one, count))


def lock_contended(library: Library, scale: Scale) -> float:
    """Nanoseconds of one acquire and release while two processes contend."""
    context = library.context()
    one, barrier = context.Lock(), context.Barrier(2)
    mine, theirs = context.Pipe()
    count = scale.count(1_000_000)  # long enough for both to contend nearly all the time
    other = context.Process(target=_contend, args=(one, barrier, count, theirs))
    other.start()
    _turns(one, WARM_UP)
    barrier.wait()
    own = _turns(one, count)
    both: float = (own + mine.recv()) / 2
    other.join()
    return both


def create_lock(library: Library, scale: Scale) -> float:
    """Microseconds of one `Lock()`."""
    context = library.context()
    count = scale.count(1_000, 100)
    context.Lock()
    begin = time.perf_counter()
    locks = [context.Lock() for _ in range(count)]
    seconds = time.perf_counter() - begin
    del locks
    return seconds / count * 1e6


def _answer(there: Any, back: Any, count: int) -> None:
    for _ in range(count):
        there.wait()
        there.clear()
        back.set()


def event_rtt(library: Library, scale: Scale) -> float:
    """Microseconds of a round trip: setting an event, and waiting for the one that the other process sets."""
    context = library.context()
    there, back = context.Event(), context.Event()
    count = scale.count(2_000, 200)
    other = context.Process(target=_answer, args=(there, back, count))
    other.start()
    begin = time.perf_counter()
    for _ in range(count):
        there.set()
        back.wait()
        back.clear()
    seconds = time.perf_counter() - begin
    other.join()
    return seconds / count * 1e6


ROWS = (
    Row("lock", "ns", 1.0, measure=lock, note="acquire and release"),
    Row("lock-contended", "ns", 1.0, measure=lock_contended, note="two processes"),
    Row("lock-with", "ns", measure=lock_with),
    Row("lock-rlock", "ns", measure=rlock),
    Row("create-lock", "us", 10, measure=create_lock),
    Row("event-rtt", "us", measure=event_rtt),
)

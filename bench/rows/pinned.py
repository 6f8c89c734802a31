"""Processes that are bound: each to a processor of its own, or all of them to one.

Launchers of MPI programs, container managers and `Pool(cpus=...)` bind processes. Bound apart, an exchange
should cost what it costs unbound; bound together, a waiter that spins would take the processor from the
process that it waits for.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

from rows import locks
from rows.spec import OURS, Library, Measure, Row, Scale

# Where the two ends run; None: wherever the kernel puts them.
Places = tuple[int, int] | None
APART, TOGETHER = (0, 1), (0, 0)


def bind(processor: int | None) -> None:
    if processor is not None:
        os.sched_setaffinity(0, {processor})


@contextlib.contextmanager
def bound(places: Places) -> Iterator[None]:
    """Binds this process to the first place meanwhile."""
    before = os.sched_getaffinity(0)
    bind(places[0] if places else None)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _peer_of(places: Places) -> int | None:
    return places[1] if places else None


def _round_trip_us(trip: Callable[[], Any], count: int, places: Places) -> float:
    with bound(places):
        for _ in range(500):
            trip()
        begin = time.perf_counter()
        for _ in range(count):
            trip()
        return (time.perf_counter() - begin) / count * 1e6


def _echo_queue(processor: int | None, there: Any, back: Any) -> None:
    bind(processor)
    while (item := there.get()) is not None:
        back.put(item)


def queue(library: Library, scale: Scale, places: Places) -> float:
    context = library.context()
    there, back = context.Queue(), context.Queue()
    process = context.Process(target=_echo_queue, args=(_peer_of(places), there, back))
    process.start()

    def trip() -> None:
        there.put(5)
        back.get()

    took = _round_trip_us(trip, scale.count(4_000, 500), places)
    there.put(None)
    process.join()
    return took


def _echo_pipe(processor: int | None, end: Any) -> None:
    bind(processor)
    while (item := end.recv()) is not None:
        end.send(item)


def pipe(library: Library, scale: Scale, places: Places) -> float:
    context = library.context()
    end, other = context.Pipe()
    process = context.Process(target=_echo_pipe, args=(_peer_of(places), other))
    process.start()

    def trip() -> None:
        end.send(5)
        end.recv()

    took = _round_trip_us(trip, scale.count(4_000, 500), places)
    end.send(None)
    process.join()
    return took


def _same(argument: Any) -> Any:
    return argument


def pool(library: Library, scale: Scale, places: Places) -> float:
    """One `apply` of a function that does nothing, by a pool of one worker."""
    with library.context().Pool(1, initializer=bind, initargs=(_peer_of(places),)) as workers:
        return _round_trip_us(lambda: workers.apply(_same, (1,)), scale.count(2_000, 300), places)


def _contend_on(processor: int | None, lock: Any, barrier: Any, count: int, done: Any) -> None:
    bind(processor)
    locks._contend(lock, barrier, count, done)


def lock(library: Library, scale: Scale, places: Places) -> float:
    """Nanoseconds of one acquire and release while two processes contend."""
    context = library.context()
    one, barrier = context.Lock(), context.Barrier(2)
    mine, theirs = context.Pipe()
    count = scale.count(500_000)
    other = context.Process(target=_contend_on, args=(_peer_of(places), one, barrier, count, theirs))
    other.start()
    with bound(places):
        locks._turns(one, locks.WARM_UP)
        barrier.wait()
        own = locks._turns(one, count)
    both: float = (own + mine.recv()) / 2
    other.join()
    return both


Exchange = Callable[[Library, Scale, Places], float]


def _at(exchange: Exchange, places: Places) -> Measure:
    return lambda library, scale: exchange(library, scale, places)


def _unbound(exchange: Exchange) -> Callable[[Scale], float]:
    """Ours at the same exchange, unbound."""

    def floor(scale: Scale) -> float:
        import importlib

        return exchange(Library(OURS, importlib.import_module(OURS)), scale, None)

    return floor


def _rows(name: str, unit: str, exchange: Exchange, goal: float, words: str) -> tuple[Row, Row]:
    return (
        Row(
            f"pinned-apart-{name}",
            unit,
            goal,
            measure=_at(exchange, APART),
            floor=_unbound(exchange),
            floor_name="ours, unbound",
            floor_factor=1.2,
            note=f"{words}, each end bound to a processor",
        ),
        Row(
            f"pinned-together-{name}",
            unit,
            1.0,
            measure=_at(exchange, TOGETHER),
            note=f"{words}, both ends bound to one processor",
        ),
    )


ROWS = (
    *_rows("queue", "us", queue, 10, "round trip of an int"),
    *_rows("pipe", "us", pipe, 5, "round trip of an int"),
    *_rows("pool", "us", pool, 8, "apply to one worker"),
    *_rows("lock", "ns", lock, 1.0, "acquire and release, contended"),
)

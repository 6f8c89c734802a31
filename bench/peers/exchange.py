"""Messages between two processes, by whatever carries them: round trips, flow, arrays.

The definitions are those of `rows.queues` and `rows.arrays`. A way of carrying messages is a `Link`, made
before the fork, which gives each side its `End`. The first side measures, the second answers.
"""

from __future__ import annotations

import multiprocessing
import statistics
import time
from collections.abc import Callable
from typing import Any

WARM_UP = 200
SETTLE_S = 0.1  # decisions/0320
STOP = 0x7FFF
ARRAY_WARM_UP = 2
PATIENCE_S = 60


class End:
    """One side's end. What a way of carrying does in batches, or arrays, it defines itself."""

    def put(self, item: int) -> None:
        raise NotImplementedError

    def get(self) -> int:
        raise NotImplementedError

    def put_many(self, count: int) -> None:
        put = self.put
        for i in range(count):
            put(i)

    def get_many(self, count: int) -> None:
        get = self.get
        for _ in range(count):
            get()

    def put_array(self, array: Any) -> None:
        raise NotImplementedError

    def read_array(self) -> float:
        """Waits for the next array and reads every element: their sum."""
        raise NotImplementedError


class Link:
    def end(self, side: int) -> End:
        raise NotImplementedError

    def close(self) -> None:
        """Removes what outlives both ends."""


MakeLink = Callable[[int], Link]  # of the bytes of the largest array, 0 for none


def ones(nbytes: int) -> Any:
    """Of float32, whose sums are exact, large ones by pairwise summation: a reader can check them."""
    import numpy as np

    return np.ones(nbytes // 4, np.float32)


def exchange_until_settled(round_trip: Callable[[], object]) -> None:
    """Exchanges messages until the kernel has given each process its place."""
    until = time.perf_counter() + SETTLE_S
    while time.perf_counter() < until:
        round_trip()


def settle(end: End) -> None:
    def round_trip() -> None:
        end.put(5)
        end.get()

    exchange_until_settled(round_trip)
    end.put(STOP)
    end.get()  # an end may have room for one message: nothing is put before the other side has taken this one


def settled(end: End) -> None:
    """The other side of `settle`."""
    item = 0
    while item != STOP:
        item = end.get()
        end.put(item)


def measure(what: str, end: End, count: int, nbytes: int) -> float:
    """The first side. Microseconds of a round trip or of an array, or thousands of messages a second."""
    clock = time.perf_counter
    if what == "flow":
        end.get_many(WARM_UP)
        begin = clock()
        end.put(0)
        end.get_many(count)
        return count / (clock() - begin) / 1e3
    settle(end)
    if what == "round trip":
        put, get = end.put, end.get
        begin = clock()
        for _ in range(count):
            put(5)
            get()
        return (clock() - begin) / count * 1e6
    array, times = ones(nbytes), []
    for i in range(-ARRAY_WARM_UP, count):
        begin = clock()
        end.put_array(array)
        end.get()
        if i >= 0:
            times.append(clock() - begin)
    return statistics.median(times) * 1e6


def answer(what: str, end: End, count: int, nbytes: int) -> None:
    """The second side."""
    if what == "flow":
        end.put_many(WARM_UP)
        end.get()
        end.put_many(count)
        return
    settled(end)
    if what == "round trip":
        put, get = end.put, end.get
        for _ in range(count):
            put(get())
    else:
        for _ in range(ARRAY_WARM_UP + count):
            if end.read_array() != nbytes // 4:
                raise ValueError("the array arrived changed")
            end.put(1)


def _answer_in_child(link: Link, what: str, count: int, nbytes: int, barrier: Any) -> None:
    end = link.end(1)
    barrier.wait(PATIENCE_S)
    answer(what, end, count, nbytes)
    barrier.wait(PATIENCE_S)  # what one side made may go when it ends


def between_processes(make: MakeLink, what: str, count: int, nbytes: int = 0) -> float:
    """Measures a link between this process and a child that it forks."""
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(2)
    link = make(nbytes)
    child = context.Process(target=_answer_in_child, args=(link, what, count, nbytes, barrier))
    child.start()
    try:
        end = link.end(0)
        barrier.wait(PATIENCE_S)
        value = measure(what, end, count, nbytes)
        barrier.wait(PATIENCE_S)
        del end
        child.join()
    finally:
        child.kill()
        child.join()
        link.close()
    if child.exitcode != 0:
        raise RuntimeError(f"the other process ended with {child.exitcode}")
    return value

"""Ints through one queue in batches of 100: put_many and get_many, beside faster-fifo's.

faster-fifo is optional: it is left out where it is not installed (`make setup-bench` does).
"""

from __future__ import annotations

import importlib.util
import multiprocessing
import time
from collections.abc import Callable
from typing import Any

from rows.spec import Library, Row, Scale

FASTER_FIFO = "faster_fifo"
BATCH = 100
WARM_UP = 200  # batches
_INSTALLED = importlib.util.find_spec(FASTER_FIFO) is not None


def _put(go: Any, put_many: Callable[[Any], Any], batches: int) -> None:
    numbers = list(range(BATCH))
    for _ in range(WARM_UP):
        put_many(numbers)
    go.recv_bytes()
    for _ in range(batches):
        put_many(numbers)


def _get(go: Any, get_many: Callable[[int], Any], batches: int, done: Any) -> None:
    def take(left: int) -> None:
        while left:
            left -= len(get_many(min(left, BATCH)))

    take(WARM_UP * BATCH)
    go.recv_bytes()
    take(batches * BATCH)
    done.send_bytes(b"x")


def _queue(library: Library) -> tuple[Any, Callable[[Any], Any], Callable[[int], Any]]:
    """A queue with room for some 10,000 ints, and its two calls."""
    if library.name == FASTER_FIFO:
        queue = library.module.Queue(max_size_bytes=1 << 18)
        return (
            queue,
            lambda numbers: queue.put_many(numbers, timeout=60.0),
            lambda most: queue.get_many(max_messages_to_get=most, timeout=60.0),
        )
    queue = library.context().Queue(10_000)
    return queue, queue.put_many, queue.get_many


def _flow(pairs: int) -> Callable[[Library, Scale], float]:
    def measure(library: Library, scale: Scale) -> float:
        """The nanoseconds of one message, all processes together."""
        ours = library.name != FASTER_FIFO
        context = library.context() if ours else multiprocessing.get_context("fork")
        batches = scale.count(20_000 if ours else 4_000, 10) // pairs
        _keep, put_many, get_many = _queue(library)
        heard, done = context.Pipe()
        gos, workers = [], []
        for work, call, extra in ((_put, put_many, ()), (_get, get_many, (done,))):
            for _ in range(pairs):
                go, told = context.Pipe()
                gos.append(go)
                workers.append(context.Process(target=work, args=(told, call, batches, *extra)))
                workers[-1].start()
        time.sleep(0.2)  # all have warmed up
        begin = time.perf_counter()
        for go in gos:
            go.send_bytes(b"x")
        for _ in range(pairs):
            heard.recv_bytes()
        seconds = time.perf_counter() - begin
        for worker in workers:
            worker.join()
        return seconds * 1e9 / (pairs * batches * BATCH)

    return measure


def _row(name: str, pairs: int, words: str, **goals: float) -> Row:
    missing = "" if _INSTALLED else "; faster-fifo is not installed and left out (make setup-bench)"
    return Row(
        name,
        "ns",
        measure=_flow(pairs),
        peer=FASTER_FIFO if _INSTALLED else "",
        note=f"an int of a batch of {BATCH}, {words}{missing}",
        **goals,  # type: ignore[arg-type]
    )


ROWS = (
    # 12 million ints a second.
    _row("batch-int", 1, "one producer, one consumer", at_most=83.3),
    _row("batch-int-4p4c", 4, "four and four", goal=20),
)

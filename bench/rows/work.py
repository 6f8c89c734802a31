"""Tasks that take their time, and machines that are busy.

The rows of trivial tasks and small arguments show what a message costs. These rows show what a program
notices: tasks of a millisecond with arguments and results of a realistic size, and beside another process
that computes.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from typing import Any

from rows import executors
from rows.jobs import another_computes
from rows.queues import _round_trips
from rows.spec import Library, Row, Scale

WORK_S = 1e-3
TASKS = 400
SIZES = {"64B": 64, "10K": 10_000, "100K": 100_000, "1M": 1_000_000}


def _work(argument: Any) -> Any:
    """Uses a processor for a millisecond, by the CPU clock of this thread."""
    end = time.thread_time() + WORK_S
    while time.thread_time() < end:
        pass
    return argument


def _overhead_us(seconds: float, tasks: int, workers: int) -> float:
    """The processor time of a task beyond its work."""
    processors = min(workers, os.cpu_count() or 1)
    return (seconds * processors / tasks - WORK_S) * 1e6


def _pool_work(size: int, workers: int) -> Callable[[Library, Scale], float]:
    def measure(library: Library, scale: Scale) -> float:
        """Microseconds beyond the work, with arrays of `size` bytes as argument and result.

        Results are dropped as they come, as in a program that reduces or writes them.
        """
        import numpy as np

        count = scale.count(TASKS, 100)
        arguments: list[Any] = [np.ones(size, np.uint8) for _ in range(8)]
        with library.context().Pool(workers) as pool:
            for _ in pool.imap_unordered(_work, arguments * 4):
                pass
            begin = time.perf_counter()
            for _ in pool.imap_unordered(_work, (arguments[i % 8] for i in range(count))):
                pass
            return _overhead_us(time.perf_counter() - begin, count, workers)

    return measure


def _one_copy(size: int) -> Callable[[Scale], float]:
    def floor(scale: Scale) -> float:
        """Microseconds of copying the argument after a task's work. Copies in a row are quicker."""
        import numpy as np

        sources: list[Any] = [np.ones(size, np.uint8) for _ in range(8)]
        targets: list[Any] = [np.ones(size, np.uint8) for _ in range(8)]
        times = []
        for i in range(scale.count(200, 50)):
            _work(None)
            begin = time.perf_counter()
            np.copyto(targets[i % 8], sources[i % 8])
            times.append(time.perf_counter() - begin)
        return statistics.median(times) * 1e6

    return floor


# --- a busy machine


def _busy(measure: Callable[[Library, Scale], float]) -> Callable[[Library, Scale], float]:
    def beside_another(library: Library, scale: Scale) -> float:
        with another_computes():
            return measure(library, scale)

    return beside_another


def _same(argument: Any) -> Any:
    return argument


def _round_trip(library: Library, scale: Scale) -> float:
    context = library.context()
    times = _round_trips(context.Queue, context, scale)
    return sum(times) / len(times) * 1e6


def _apply(library: Library, scale: Scale) -> float:
    """Microseconds of one `apply` of a function that does nothing."""
    count = scale.count(1_000)
    with library.context().Pool(2) as pool:
        pool.map(_same, range(10))
        begin = time.perf_counter()
        for _ in range(count):
            pool.apply(_same, (1,))
        return (time.perf_counter() - begin) / count * 1e6


def _executor(library: Library, scale: Scale) -> float:
    """Microseconds per task of a millisecond through ProcessPoolExecutor(2), the work included."""
    count = scale.count(TASKS, 100)
    with executors.make(library, 2) as executor:
        list(executor.map(_same, range(4)))
        begin = time.perf_counter()
        list(executor.map(_work, range(count)))
        return (time.perf_counter() - begin) / count * 1e6


def _produce(queue: Any, count: int) -> None:
    import numpy as np

    random = np.random.default_rng(0)
    for _ in range(count):
        queue.put(random.random(750_000))


def _loader(library: Library, scale: Scale) -> float:
    """Microseconds per batch of 6 MB; two workers make the batches and one consumer reads them."""
    context = library.context()
    each = scale.count(100, 25)
    queue = context.Queue(4)
    workers = [context.Process(target=_produce, args=(queue, each)) for _ in range(2)]
    for worker in workers:
        worker.start()
    queue.get()
    begin = time.perf_counter()
    for _ in range(2 * each - 1):
        queue.get().sum()
    seconds = time.perf_counter() - begin
    for worker in workers:
        worker.join()
    return seconds / (2 * each - 1) * 1e6


ROWS = (
    *(
        Row(
            f"pool-work-{name}{'' if workers == 2 else f'-{workers}w'}",
            "us",
            1.0,
            at_most=50,
            floor_factor=2,
            floor_name="a copy after such work",
            floor=_one_copy(size),
            measure=_pool_work(size, workers),
            note="beyond 1 ms of work; argument and result of this size, imap_unordered",
        )
        for workers in (2, 4)
        for name, size in SIZES.items()
    ),
    Row("busy-queue-rtt", "us", 1.0, measure=_busy(_round_trip), note="beside a process that computes"),
    Row("busy-pool-apply", "us", 1.0, measure=_busy(_apply), note="the same"),
    Row("busy-executor", "us", 1.0, measure=_busy(_executor), note="the same; tasks of 1 ms"),
    Row("busy-loader", "us", 1.0, measure=_busy(_loader), note="the same; batches of 6 MB of two workers"),
)

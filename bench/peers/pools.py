"""Pools of two workers: the standard library's executor, loky's, mpire's, and mpi4py.futures (in `mpi`).

The definitions are those of pool-map-1 ("one"), pool-map-auto ("chunks") and pool-apply ("call") in
`rows.processes`. Executors choose no chunks; they get those that `Pool.map` would choose.
"""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import statistics
import time
from collections.abc import Callable
from typing import Any

WORKERS = 2
WARM_UP = 100
CALLS_BEFORE = 50


def same(argument: Any) -> Any:
    return argument


def chunksize(what: str, count: int) -> int:
    """One, or what `multiprocessing.Pool.map` chooses."""
    return 1 if what == "one" else -(-count // (4 * WORKERS))


def rate(run: Callable[[Any], Any], count: int) -> float:
    """Thousands of tasks a second."""
    begin = time.perf_counter()
    results = run(range(count))
    seconds = time.perf_counter() - begin
    if len(results) != count:
        raise ValueError("results are missing")
    return count / seconds / 1e3


def latency(call: Callable[[], Any], count: int) -> float:
    """Microseconds, the median."""
    times = []
    for i in range(-CALLS_BEFORE, count):
        begin = time.perf_counter()
        call()
        if i >= 0:
            times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1e6


def executor(pool: Any, what: str, count: int) -> float:
    """Of an executor with the interface of concurrent.futures."""
    if what == "call":
        return latency(lambda: pool.submit(same, 1).result(), count)
    list(pool.map(same, range(WARM_UP), chunksize=1))
    size = chunksize(what, count)
    return rate(lambda items: list(pool.map(same, items, chunksize=size)), count)


def futures(what: str, count: int) -> float:
    context = multiprocessing.get_context("fork")
    with concurrent.futures.ProcessPoolExecutor(WORKERS, mp_context=context) as pool:
        return executor(pool, what, count)


def loky(what: str, count: int) -> float:
    """With loky's own start method: it has no fork."""
    from loky import ProcessPoolExecutor

    with ProcessPoolExecutor(WORKERS) as pool:
        return executor(pool, what, count)


def mpire(what: str, count: int) -> float:
    """In its own chunks: 64 for each worker."""
    from mpire import WorkerPool

    with WorkerPool(WORKERS, start_method="fork", keep_alive=True) as pool:
        if what == "call":
            return latency(lambda: pool.apply(same, (1,)), count)
        size = {"chunk_size": 1} if what == "one" else {}
        pool.map(same, range(WARM_UP), chunk_size=1)
        return rate(lambda items: pool.map(same, items, iterable_len=len(items), **size), count)

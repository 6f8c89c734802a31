"""Processes: starting one, the pool, and the cost of idle and fresh processes."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rows import others
from rows.spec import Library, Row, Scale

# --- start


def _nothing() -> None:
    pass


def start_fork(library: Library, scale: Scale) -> float:
    """Milliseconds of start and join of a forked process that does nothing."""
    context = library.context("fork")
    times = []
    for i in range(-1, scale.count(50, 3)):
        begin = time.perf_counter()
        process = context.Process(target=_nothing)
        process.start()
        process.join()
        if i >= 0:
            times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1e3


# --- examining a fork


def fork_guard(library: Library, scale: Scale) -> float:
    """Milliseconds of a fork, of a parent with NumPy's threads and four of Python's that sleep."""
    import numpy as np

    check: Callable[[], None] = _nothing
    if library.module.__name__.startswith("forklift"):
        from forklift.fork.policy import check_fork as check
    end = threading.Event()
    threads = [threading.Thread(target=end.wait) for _ in range(4)]
    for thread in threads:
        thread.start()
    np.ones((300, 300)) @ np.ones((300, 300))
    time.sleep(0.3)  # until NumPy's threads sleep
    times = []
    for _ in range(scale.count(200, 20)):
        begin = time.perf_counter()
        check()
        child = os.fork()
        if child == 0:
            os._exit(0)
        times.append(time.perf_counter() - begin)
        os.waitpid(child, 0)
    end.set()
    for thread in threads:
        thread.join()
    return statistics.median(times) * 1e3


# --- pool


def _same(x: int) -> int:
    return x


def pool_map_1(library: Library, scale: Scale) -> float:
    """Thousands of trivial tasks a second through `Pool(2).map`, chunksize 1."""
    count = scale.count(100_000)
    with library.context().Pool(2) as pool:
        pool.map(_same, range(100), chunksize=1)
        begin = time.perf_counter()
        pool.map(_same, range(count), chunksize=1)
        return count / (time.perf_counter() - begin) / 1e3


def pool_map_auto(library: Library, scale: Scale) -> float:
    """Thousands of trivial tasks a second through `Pool(2).map` with the chunks that it chooses."""
    count = scale.count(500_000)
    with library.context().Pool(2) as pool:
        pool.map(_same, range(count // 10))
        begin = time.perf_counter()
        pool.map(_same, range(count))
        return count / (time.perf_counter() - begin) / 1e3


def _map_here(scale: Scale) -> float:
    """Thousands of the same calls a second in this process alone: no message, one processor."""
    count = scale.count(500_000)
    begin = time.perf_counter()
    list(map(_same, list(range(count))))
    return count / (time.perf_counter() - begin) / 1e3


def pool_apply(library: Library, scale: Scale) -> float:
    with library.context().Pool(2) as pool:
        times = []
        for i in range(-50, scale.count(2_000)):
            begin = time.perf_counter()
            pool.apply(_same, (1,))
            if i >= 0:
                times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1e6


# --- idle and memory


def _get_once(queue: Any) -> None:
    queue.get()


def _cpu_seconds(pid: int) -> float:
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


def idle(library: Library, scale: Scale) -> float:
    """Percent of a processor that four processes use together while they wait in `get`."""
    context = library.context()
    queues = [context.Queue() for _ in range(4)]
    waiters = [context.Process(target=_get_once, args=(queue,)) for queue in queues]
    for waiter in waiters:
        waiter.start()
    time.sleep(0.5)
    used = sum(_cpu_seconds(waiter.pid) for waiter in waiters)
    begin = time.perf_counter()
    time.sleep(3 if scale.quick else 10)
    used = sum(_cpu_seconds(waiter.pid) for waiter in waiters) - used
    seconds = time.perf_counter() - begin
    for queue, waiter in zip(queues, waiters, strict=True):
        queue.put(None)
        waiter.join()
    return used / seconds * 100


# The interpreter is fresh, so that nothing else is in the figure.
MEMORY_PROGRAM = """
import importlib, os, sys
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
before = resident()
module = importlib.import_module(sys.argv[1])
queue = module.get_context("fork").SimpleQueue()
queue.put(1)
queue.get()
print((resident() - before) / 1e6)
"""


def memory(library: Library, scale: Scale) -> float:
    """Megabytes that a process grows by importing the library and using one queue."""
    program = [sys.executable, "-c", MEMORY_PROGRAM, library.module.__name__]
    return float(subprocess.run(program, check=True, capture_output=True, text=True).stdout)


ROWS = (
    Row("idle", "% CPU", at_most=0.1, measure=idle, note="4 processes blocked in get"),
    Row("memory", "MB", extra_at_most=4, measure=memory, note="resident, after import and one message"),
    Row(
        "pool-map-1",
        "k/s",
        8,
        more_is_better=True,
        measure=pool_map_1,
        # A part of the tasks: these take as long as ours for all.
        others=others.tasks("one", lambda scale: scale.count(4_000, 100)),
    ),
    Row(
        "pool-map-auto",
        "k/s",
        2,
        more_is_better=True,
        measure=pool_map_auto,
        others=others.tasks("chunks", lambda scale: scale.count(200_000, 1_000)),
        floor=_map_here,
        floor_name="map() in one process",
        note="`Pool(2).map` of trivial tasks, chunks as it chooses",
    ),
    Row(
        "pool-apply",
        "us",
        8,
        measure=pool_apply,
        others=others.tasks("call", lambda scale: scale.count(1_000, 20)),
    ),
    Row("fork-guard", "ms", extra_at_most=1.0, measure=fork_guard, note="a fork with five other threads"),
    Row("start-fork", "ms", measure=start_fork),
)

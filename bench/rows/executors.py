"""Executors of concurrent.futures: small tasks by map and by submit, and arrays as arguments and results.

The peer is the standard library's class with the standard library's context.
"""

from __future__ import annotations

import concurrent.futures
import time
from collections.abc import Callable
from typing import Any

from rows.spec import OURS, Library, Row, Scale


def make(library: Library, workers: int) -> Any:
    """The library's own executor."""
    if library.name == OURS:
        import forklift

        return forklift.ProcessPoolExecutor(workers, mp_context=library.context())
    return concurrent.futures.ProcessPoolExecutor(workers, mp_context=library.context())


def _same(argument: Any) -> Any:
    return argument


def _map(library: Library, scale: Scale) -> float:
    """Thousands of tasks a second of map with chunksize 1 over two workers."""
    count = scale.count(100_000 if library.name == OURS else 10_000, 100)
    with make(library, 2) as executor:
        list(executor.map(_same, range(10)))
        begin = time.perf_counter()
        for _ in executor.map(_same, range(count)):
            pass
        return count / (time.perf_counter() - begin) / 1e3


def _submit(library: Library, scale: Scale) -> float:
    """Thousands of futures a second: all are submitted, then each one's result is taken."""
    count = scale.count(50_000 if library.name == OURS else 10_000, 100)
    with make(library, 2) as executor:
        list(executor.map(_same, range(10)))
        begin = time.perf_counter()
        futures = [executor.submit(_same, i) for i in range(count)]
        for future in futures:
            future.result()
        return count / (time.perf_counter() - begin) / 1e3


def _round_trip(library: Library, scale: Scale) -> float:
    """Microseconds from submit to the result of one call at a time."""
    count = scale.count(2_000, 50)
    with make(library, 2) as executor:
        list(executor.map(_same, range(10)))
        begin = time.perf_counter()
        for i in range(count):
            executor.submit(_same, i).result()
        return (time.perf_counter() - begin) / count * 1e6


def _arrays(size: int) -> Callable[[Library, Scale], float]:
    def measure(library: Library, scale: Scale) -> float:
        """Microseconds a task whose argument and result are arrays of `size` bytes, by map."""
        import numpy as np

        count = scale.count(400, 20)
        arguments: list[Any] = [np.ones(size, np.uint8) for _ in range(8)]
        with make(library, 2) as executor:
            list(executor.map(_same, arguments))
            begin = time.perf_counter()
            for _ in executor.map(_same, [arguments[i % 8] for i in range(count)]):
                pass
            return (time.perf_counter() - begin) / count * 1e6

    return measure


def _joblib(library: Library, scale: Scale) -> float:
    """Thousands of tasks a second of joblib's Parallel, each a message of its own."""
    import joblib  # type: ignore[import-untyped,unused-ignore]

    backend = "loky"
    if library.name == OURS:
        import forklift.adapters.joblib

        backend = forklift.adapters.joblib.NAME
    count = scale.count(10_000, 100)
    with joblib.Parallel(2, backend=backend, batch_size=1, pre_dispatch="all") as parallel:
        parallel(joblib.delayed(_same)(i) for i in range(10))
        begin = time.perf_counter()
        parallel(joblib.delayed(_same)(i) for i in range(count))
        return count / (time.perf_counter() - begin) / 1e3


def _joblib_alone(scale: Scale) -> float:
    """As _joblib(), with a backend that computes each task at once: what joblib itself takes."""
    import joblib
    from joblib import _parallel_backends as backends

    class AtOnce(backends.ParallelBackendBase):  # type: ignore[misc,unused-ignore]
        supports_retrieve_callback = True

        def effective_n_jobs(self, n_jobs: int) -> int:
            return n_jobs

        def submit(self, func: Callable[[], Any], callback: Callable[[Any], Any] | None = None) -> Any:
            future: concurrent.futures.Future[Any] = concurrent.futures.Future()
            future.set_result(func())
            if callback is not None:
                future.add_done_callback(callback)
            return future

        def retrieve_result_callback(self, future: Any) -> Any:
            return future.result()

    joblib.register_parallel_backend("at once", AtOnce)
    count = scale.count(10_000, 100)
    with joblib.Parallel(2, backend="at once", batch_size=1, pre_dispatch="all") as parallel:
        parallel(joblib.delayed(_same)(i) for i in range(10))
        begin = time.perf_counter()
        parallel(joblib.delayed(_same)(i) for i in range(count))
        return count / (time.perf_counter() - begin) / 1e3


ROWS = (
    Row(
        "executor-map-1",
        "k/s",
        15,
        more_is_better=True,
        measure=_map,
        note="ProcessPoolExecutor(2).map of trivial tasks, chunksize 1",
    ),
    Row(
        "executor-submit",
        "k/s",
        10,
        more_is_better=True,
        measure=_submit,
        note="trivial calls: submit them all, then take each result",
    ),
    Row("executor-rtt", "us", measure=_round_trip, note="submit(f, i).result(), one at a time"),
    Row(
        "executor-array-1M",
        "us",
        8,
        measure=_arrays(1_000_000),
        note="map; argument and result are arrays of 1 MB, dropped as they come",
    ),
    Row(
        "joblib-tasks",
        "k/s",
        20,
        more_is_better=True,
        measure=_joblib,
        floor=_joblib_alone,
        floor_name="joblib with a backend that computes at once",
        peer="joblib",
        note="joblib.Parallel(2) of trivial tasks with batch_size=1; the peer is its backend loky",
    ),
)

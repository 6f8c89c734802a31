"""Pools on a Ray cluster: ours, Ray's own, and Ray's tasks, each on a Ray of its own with two CPUs."""

from __future__ import annotations

import functools
import importlib.util
import os
import time
from collections.abc import Callable
from typing import Any

from rows.spec import Library, Row, Scale

CPUS = 2
OURS = "forklift.cluster"
LOCAL = "forklift.multiprocessing"
RAYS_POOL = "ray.util.multiprocessing"
RAYS_TASKS = "ray"
# Chunks of which the best one counts, as parts of all tasks.
CHUNKS = (1, 4, 20, 100, 500)
ARRAY = 1 << 20
WORK_S = 1e-3


def _same(argument: Any) -> Any:
    return argument


def _work(argument: Any) -> Any:
    end = time.thread_time() + WORK_S
    while time.thread_time() < end:
        pass
    return argument


def _connect() -> Any:
    import ray

    if not ray.is_initialized():
        os.environ.setdefault("RAY_worker_niceness", "0")  # 15 otherwise, and the local pool has 0
        ray.init(address="local", num_cpus=CPUS, include_dashboard=False, log_to_driver=False)
    return ray


_pools: dict[str, Any] = {}


def _pool(library: Library) -> Any:
    """A pool that stays for all measurements of the contender."""
    if library.name not in _pools:
        if library.name == LOCAL:
            _pools[library.name] = library.module.get_context("forkserver").Pool(CPUS)
        else:
            _connect()
            make = library.module.context("ray") if library.name == OURS else library.module
            _pools[library.name] = make.Pool(CPUS)
        _pools[library.name].map(_same, range(1000), chunksize=10)
    return _pools[library.name]


def _map(call: Callable[[], Any], count: int) -> float:
    """Thousands of tasks a second."""
    begin = time.perf_counter()
    assert len(call()) == count
    return count / (time.perf_counter() - begin) / 1e3


def _tiny(library: Library, scale: Scale) -> float:
    pool = _pool(library)
    count = scale.count(100_000 if library.name == OURS else 5_000, 500)
    items = list(range(count))
    return _map(lambda: pool.map(_same, items, chunksize=1), count)


def _best(library: Library, scale: Scale) -> float:
    pool = _pool(library)
    count = scale.count(500_000, 1_000)
    items = list(range(count))
    sizes = [max(count // (CPUS * part), 1) for part in CHUNKS]
    return max(_map(functools.partial(pool.map, _same, items, size), count) for size in sizes)


def _tasks(library: Library, scale: Scale) -> float:
    if library.name == OURS:
        return _tiny(library, scale)
    ray = _connect()
    remote = ray.remote(_same)
    count = scale.count(5_000, 200)
    return _map(lambda: ray.get([remote.remote(i) for i in range(count)]), count)


def _arrays(library: Library, scale: Scale) -> float:
    """Microseconds for an array of 1 MB there and back."""
    import numpy as np

    pool = _pool(library)
    count = scale.count(200, 20)
    arrays: list[Any] = [np.full(ARRAY, i, np.uint8) for i in range(8)]
    begin = time.perf_counter()
    for got in pool.imap_unordered(_same, (arrays[i % 8] for i in range(count))):
        assert got.nbytes == ARRAY
    return (time.perf_counter() - begin) / count * 1e6


def _one_node(library: Library, scale: Scale) -> float:
    """Milliseconds for tasks of a millisecond, chunksize 1."""
    pool = _pool(library)
    items = list(range(scale.count(2_000, 50)))
    begin = time.perf_counter()
    pool.map(_work, items, chunksize=1)
    return (time.perf_counter() - begin) * 1e3


ROWS: tuple[Row, ...] = tuple(
    Row(
        name,
        unit,
        goal,
        more_is_better=unit == "k/s",
        measure=measure,
        ours=OURS,
        peer=peer,
        note=note,
    )
    for name, unit, goal, measure, peer, note in (
        ("cluster-map-tiny", "k/s", 30, _tiny, RAYS_POOL, "chunksize 1"),
        ("cluster-map-best", "k/s", 5, _best, RAYS_POOL, "the best of five chunksizes each"),
        ("cluster-tasks-tiny", "k/s", None, _tasks, RAYS_TASKS, "ours: map with chunksize 1"),
        ("cluster-array-1M", "us", 3, _arrays, RAYS_POOL, "an array there and back, imap_unordered"),
        ("cluster-one-node", "ms", 1 / 1.3, _one_node, LOCAL, "2,000 tasks of 1 ms"),
    )
)
if importlib.util.find_spec("ray") is None:
    ROWS = ()

"""A script that runs its checks in one MPI job: ``python -m forklift.mpi mpi_checks.py``.

Each check is a function of this module; a line of JSON says of each how it ended. What its tasks run is of
the main module, so it travels by value; ray_targets is a module that workers import by its name.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import queue
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import forklift
import forklift.multiprocessing as mp
import numpy as np
import pytest
from forklift.multiprocessing.pool import TaskTimeoutError, WorkerDiedError

sys.path.append(str(Path(__file__).parents[1]))
import ray_targets

SECONDS = 60


class Point:
    """A class of the main module."""

    def __init__(self, x: int) -> None:
        self.x = x

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Point) and other.x == self.x

    __hash__ = None  # type: ignore[assignment]


class Refused(Exception):
    pass


def square(x: int) -> int:
    return x * x


def add(x: int, y: int) -> int:
    return x + y


def inverse(x: float) -> float:
    if x < 0:
        raise Refused(x)
    return 1 / x


def die_once(turn: tuple[str, int]) -> int:
    """Kill the worker at the first attempt."""
    flag, number = turn
    if number == 3 and not os.path.exists(flag):
        with open(flag, "w"):
            pass
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def doubled(array: Any) -> Any:
    array *= 2  # its own, and writable
    return array


def block_of(turn: tuple[Any, int]) -> tuple[int, int, bool]:
    array, _ = turn
    time.sleep(0.05)
    base = array
    while isinstance(base, (np.ndarray, memoryview)):
        base = base.base if isinstance(base, np.ndarray) else base.obj
    return os.getpid(), forklift._core.block_address(base), array.flags.writeable


def where(seconds: float) -> tuple[int, int]:
    time.sleep(seconds)
    return os.getppid(), os.getpid()


def environment_of(_: Any) -> tuple[bool, list[str], int]:
    from mpi4py import MPI

    variables = [name for name in os.environ if name.startswith(("OMPI_", "PMIX_"))]
    return MPI.Is_initialized(), variables, len(os.sched_getaffinity(0))


def log_one(x: int) -> int:
    logging.getLogger("checks").warning("task %d", x)
    return x


def hold(lock: Any) -> bool:
    with lock:
        return True


async def awaited(pool: Any) -> int:
    found: int = await pool.apply_async(square, (7,))
    return found


def ready(pool: Any) -> list[Any]:
    """The nodes, when all have started."""
    end = time.monotonic() + SECONDS
    while any(each.state != "ready" or len(each.pids) < each.workers for each in pool.nodes()):
        assert time.monotonic() < end, pool.nodes()
        time.sleep(0.01)
    return list(pool.nodes())


# --- the checks; `pool` is shared by all


def check_calls(pool: Any) -> None:
    assert pool.map(square, range(100)) == [i * i for i in range(100)]
    assert pool.map(square, range(20_000), 1) == [i * i for i in range(20_000)]
    assert pool.starmap(add, [(1, 2), (3, 4)]) == [3, 7]
    assert pool.apply(add, (1,), {"y": 5}) == 6
    assert list(pool.imap(square, range(50), lookahead=8)) == [i * i for i in range(50)]
    assert sorted(pool.imap_unordered(square, iter(range(50)))) == [i * i for i in range(50)]
    assert pool.apply_async(lambda x: x + 1, (1,)).get(SECONDS) == 2
    assert pool.map(lambda each: Point(each.x + 1), [Point(1), Point(2)]) == [Point(2), Point(3)]


def check_exceptions(pool: Any) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        pool.map(inverse, [1.0, 0.0])
    assert "return 1 / x" in str(caught.value.__cause__)
    assert "item 1" in str(caught.value.__cause__)
    with pytest.raises(Refused):
        pool.apply(inverse, (-1.0,))
    with pytest.raises(TaskTimeoutError):
        pool.apply(time.sleep, (SECONDS,), timeout=0.3)


def check_deaths(pool: Any) -> None:
    with pytest.raises(WorkerDiedError, match="SIGKILL"):
        pool.apply(lambda: os.kill(os.getpid(), signal.SIGKILL))
    flag = os.path.join(sys.argv[1], "died")
    assert pool.map(die_once, [(flag, i) for i in range(8)], 1, retries=1) == list(range(8))
    assert os.path.exists(flag)
    node = ready(pool)[-1]
    running = pool.map_async(time.sleep, [0.3] * 8, 1, retries=1)
    os.kill(node.pids[0], signal.SIGKILL)
    assert running.get(SECONDS) == [None] * 8


def check_arrays(pool: Any) -> None:
    arrays = [np.full(500_000, i, float) for i in range(6)]
    results = pool.map(doubled, arrays, 1)
    for i, (array, result) in enumerate(zip(arrays, results, strict=True)):
        assert (result == 2 * i).all()
        assert (array == i).all()
        result[0] = -1  # writable
    assert pool.apply(np.sum, (np.ones((300, 300))[::2],)) == 45_000
    assert pool.apply(bytes, (3 << 20,)) == bytes(3 << 20)
    assert pool.apply(len, (b"x" * (3 << 20),)) == 3 << 20
    assert pool.apply(np.asarray, (np.empty(0),)).size == 0


def check_an_array_of_many_tasks_is_one_mapping_on_a_node(pool: Any) -> None:
    table = np.arange(100_000.0)
    found = pool.map(block_of, [(table, i) for i in range(12)], 1)
    by_pid = {pid: node.node_id for node in ready(pool) for pid in node.pids}
    for node in set(by_pid.values()):
        assert len({block for pid, block, _ in found if by_pid[pid] == node}) <= 1
    assert not any(writeable for _, _, writeable in found)
    frozen = forklift.freeze({"a": np.ones(10_000)})
    assert pool.map(lambda key: float(frozen[key].sum()), ["a"] * 3, 1) == [10_000.0] * 3


def check_nodes(pool: Any) -> None:
    nodes = ready(pool)
    assert len(nodes) == int(os.environ["CHECKED_NODES"])
    assert sum(each.workers for each in nodes) == len(pool._pool) == mp.get_context("mpi").cpu_count()
    found = pool.map(where, [0.1] * 4 * len(pool._pool), 1)
    assert {pid for _, pid in found} <= {pid for each in nodes for pid in each.pids}
    ended = {each.node_id: each.ended for each in pool.nodes()}
    assert all(ended.values())
    assert pool.waiting() == 0


def check_workers_are_no_ranks(pool: Any) -> None:
    initialised, variables, cpus = pool.apply(environment_of, (0,))
    assert not initialised
    assert variables == []
    # A launcher may bind each rank to one processor: workers may use those of all ranks of their node.
    assert cpus >= min(min(each.workers for each in ready(pool)), os.cpu_count() or 1)


def check_options(_pool: Any) -> None:
    ctx = mp.get_context("mpi")
    assert ctx.get_start_method() == "mpi"
    inbox, outbox = ctx.Queue(), ctx.Queue()
    given = (inbox, np.arange(3))
    with ctx.Pool(2, ray_targets.keep, given, maxtasksperchild=2, retries=1, timeout=SECONDS) as own:
        for number in range(8):
            inbox.put({"number": number})
        taken = own.map(ray_targets.take_and_put, [outbox] * 8, 1)
        assert sorted(taken) == list(range(8))
        assert sorted(outbox.get(timeout=SECONDS) for _ in range(8)) == [i * i for i in range(8)]
        assert len(own._pool) == 2
    with pytest.raises(forklift.NotAcrossNodesError, match="binds ranks"):
        ctx.Pool(2, cpus=[0])
    with pytest.raises(TypeError, match="ray_remote_args"):
        ctx.Pool(ray_remote_args={})
    for name in ("Value", "Array", "RawValue", "RawArray", "Pipe", "Process", "spawn"):
        with pytest.raises(forklift.NotAcrossNodesError):
            getattr(ctx, name)()
    with pytest.raises(forklift.NotAcrossNodesError):
        _pool.apply(square, (forklift.share(np.ones(3)),))


def check_queues_and_locks(pool: Any) -> None:
    ctx = mp.get_context("mpi")
    inbox, event, lock = ctx.Queue(), ctx.Event(), ctx.Lock()
    waiting = pool.apply_async(lambda: (event.wait(SECONDS), inbox.put(Point(4))))
    assert not waiting.ready()
    event.set()
    assert waiting.get(SECONDS) == (True, None)
    assert inbox.get(timeout=SECONDS) == Point(4)
    with pytest.raises(queue.Empty):
        inbox.get_nowait()
    with lock:
        held = pool.apply_async(hold, (lock,))
        assert not held.ready()
    assert held.get(SECONDS) is True
    with ctx.Manager() as manager:
        shared = manager.dict()
        pool.map(lambda i: shared.update({i: i}), range(4), 1)
        assert dict(shared) == {i: i for i in range(4)}


def check_progress_logs_and_await(_pool: Any) -> None:
    ctx = mp.get_context("mpi")
    records: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: records.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("checks").addHandler(handler)
    seen: list[int] = []
    with ctx.Pool(2, log=True) as own:
        own.map(log_one, range(3), 1, progress=seen.append)
        end = time.monotonic() + SECONDS
        while len(records) < 3 and time.monotonic() < end:
            time.sleep(0.01)
        assert sorted(records) == [f"task {i}" for i in range(3)]
        assert sum(seen) == 3
        assert asyncio.run(awaited(own)) == 49


def check_several_pools(pool: Any) -> None:
    with mp.get_context("mpi").Pool(1) as one, mp.get_context("mpi").Pool() as other:
        results = [each.map_async(square, range(50)) for each in (pool, one, other)]
        for each in results:
            assert each.get(SECONDS) == [i * i for i in range(50)]
        other.close()
        other.join()


CHECKS = [name for name in globals() if name.startswith("check_")]


def main() -> None:
    # Local processes beside the job.
    with mp.get_context("forkserver").Pool(1) as local:
        assert local.map(abs, [-1]) == [1]
    with mp.get_context("mpi").Pool() as pool:
        for name in CHECKS:
            try:
                globals()[name](pool)
                said = None
            except BaseException:
                said = traceback.format_exc()
            print(json.dumps({"check": name, "error": said}), flush=True)


if __name__ == "__main__":
    main()

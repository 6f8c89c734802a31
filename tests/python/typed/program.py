"""What a typed program writes: mypy --strict finds nothing wrong, and knows the types that are asserted."""

from __future__ import annotations

import asyncio
import ctypes
import multiprocessing as std
from collections.abc import Iterator
from multiprocessing.managers import DictProxy, SyncManager
from multiprocessing.pool import IMapIterator
from typing import Any

import forklift
import forklift.multiprocessing as mp
import numpy as np
import numpy.typing as npt
from forklift import FrozenDict, FrozenList, FrozenTuple
from forklift.cluster.mpi.context import MpiContext
from forklift.cluster.ray_context import RayContext
from forklift.multiprocessing import (
    Array,
    JoinableQueue,
    Lock,
    Pipe,
    Pool,
    Process,
    Queue,
    SimpleQueue,
    Value,
    connection,
    context,
    pool,
    queues,
    sharedctypes,
    synchronize,
)
from typing_extensions import assert_type


class Job:
    number: int = 0


def worker(inbox: Queue[Job], outbox: mp.SimpleQueue[str], lock: synchronize.Lock) -> None:
    with lock:
        outbox.put(str(inbox.get().number))
    assert_type(lock.acquire(timeout=1), bool)
    assert_type(lock.abandoned, bool)


def square(x: int) -> float:
    return x * x / 2


def add(x: int, y: int) -> int:
    return x + y


def train(rank: int, rate: float) -> None:
    pass


def start_ranks() -> None:
    context = mp.spawn(train, args=(0.1,), nprocs=2, join=False)
    assert_type(context, mp.ProcessContext | None)
    mp.start_processes(train, (0.1,), nprocs=2, start_method="forkserver")
    mp.start_ranks(train, (0.1,), 2, cpus=[0, {0, 1}], name="trainer")
    try:
        if context:
            assert_type(context.join(timeout=1.0, grace_period=2.0), bool)
            assert_type(context.pids(), list[int])
    except mp.ProcessExitedException as error:
        assert_type(error.exit_code, int)
        assert_type(error.error_index, int)
    except mp.ProcessRaisedException as error:
        print(error.msg)
    mp.set_sharing_strategy("file_system")
    assert_type(mp.get_all_sharing_strategies(), set[str])
    assert_type(mp.ENV_VAR_PARALLEL_START, str)
    mp._set_thread_name(mp.reductions.anything)


def make_queues() -> None:
    jobs: Queue[Job] = Queue(maxsize=10)
    names: SimpleQueue[str] = SimpleQueue()
    done: JoinableQueue[int] = JoinableQueue()
    anything = Queue()
    assert_type(anything, queues.Queue[Any])
    assert_type(jobs.get(), Job)
    assert_type(jobs.get(True, 5.0), Job)
    assert_type(jobs.get(as_="torch"), Any)
    assert_type(jobs.get(copy=False), Any)
    assert_type(jobs.get_nowait(), Job)
    assert_type(jobs.get_nowait(as_="numpy"), Any)
    assert_type(jobs.qsize(), int)
    assert_type(names.get(), str)
    assert_type(names.empty(), bool)
    done.put(3, timeout=1)
    done.task_done()
    done.join()
    with jobs.loan((3, 4), "float32") as array:
        array[:] = 0
    strict = Queue[bytes](strict=True, framework="numpy")
    strict.put(b"")
    Process(target=worker, args=(jobs, names, Lock()), daemon=True).start()


async def coroutines(jobs: Queue[Job]) -> Job:
    await jobs.aput(Job(), timeout=1)
    receiver, sender = Pipe(duplex=False)
    await sender.asend(1)
    assert_type(await receiver.arecv(), Any)
    with Pool(2) as workers:
        assert_type(await workers.apply_async(square, (3,)), float)
        assert_type(await workers.map_async(square, [3]), list[float])
    return await jobs.aget()


def make_locks() -> None:
    assert_type(mp.Lock(), synchronize.Lock)
    assert_type(mp.RLock(), synchronize.RLock)
    assert_type(mp.Event(), synchronize.Event)
    assert_type(mp.Event().wait(1), bool)
    assert_type(mp.Semaphore(2, recover=True), synchronize.Semaphore)
    assert_type(mp.BoundedSemaphore(2).get_value(), int)
    assert_type(mp.Barrier(2).wait(), int)
    assert_type(mp.Condition(mp.Lock()), synchronize.Condition)
    shared: std.synchronize.Lock = mp.Lock()
    with shared:
        pass


def make_pipes() -> None:
    first, second = Pipe()
    assert_type(first, connection.Connection[Any, Any])
    assert_type(second.poll(1), bool)
    one: connection.Connection[int, str]
    other: connection.Connection[str, int]
    one, other = Pipe()
    one.send(1)
    assert_type(one.recv(), str)
    assert_type(other.recv(), int)
    assert_type(connection.wait([first, 3], timeout=1), list[Any])


def make_values() -> None:
    counter = Value(ctypes.c_int, 0)
    assert_type(counter, sharedctypes.Synchronized[int])
    counter.value += 1
    assert_type(Value(ctypes.c_int, 0, lock=False), ctypes.c_int)
    assert_type(Array(ctypes.c_char, 12), sharedctypes.SynchronizedString)
    numbers = Array(ctypes.c_double, 3)
    assert_type(numbers, sharedctypes.SynchronizedArray[float])
    assert_type(numbers[:], list[float])
    assert_type(mp.RawValue(ctypes.c_int), ctypes.c_int)
    assert_type(mp.RawArray(ctypes.c_int, 3), "ctypes.Array[ctypes.c_int]")


def use_pools() -> Iterator[float]:
    with Pool(4, initializer=make_locks, timeout=60, retries=1, log=True, cpus=[0, [1, 2]]) as workers:
        assert_type(workers, pool.Pool)
        assert_type(workers.apply(square, (3,), timeout=3), float)
        assert_type(workers.map(square, range(10), progress=True), list[float])
        assert_type(workers.starmap(add, [(1, 2)], retries=2), list[int])
        result = workers.apply_async(square, (3,), callback=print)
        assert_type(result.get(10), float)
        assert_type(workers.starmap_async(add, [(1, 2)]).get(), list[int])
        results = workers.imap(square, range(10), lookahead=5)
        assert_type(results, IMapIterator[float])
        assert_type(results.next(timeout=3), float)
        assert_type(workers.insights(), forklift.PoolInsights)
        assert_type(workers.insights().waiting_ratio, float)
        assert_type(workers.map(square, range(10), progress="insights"), list[float])
        yield from workers.imap_unordered(square, range(10))
        kept: std.pool.Pool = workers
        kept.close()
    assert_type(pool.worker_id(), int)
    assert_type(forklift.WorkerDiedError("x").exitcode, int)


def use_contexts(method: str) -> None:
    assert_type(mp.get_context("spawn"), context.SpawnContext)
    assert_type(mp.get_context("ray"), RayContext)
    assert_type(mp.get_context("mpi"), MpiContext)
    assert_type(mp.get_context("fork").Lock(), synchronize.Lock)
    chosen = mp.get_context(method)
    assert_type(chosen.Queue(), queues.Queue[Any])
    chosen.Process(target=make_locks).start()
    plain: std.context.BaseContext = chosen
    plain.Queue()
    with mp.Manager() as manager:
        assert_type(manager, SyncManager)
        table: DictProxy[str, int] = manager.dict()
        table["a"] = 1
    assert_type(mp.get_start_method(), str)
    assert_type(mp.cpu_count(), int)
    assert_type(mp.current_process().name, str)


def share(array: npt.NDArray[np.float64]) -> None:
    assert_type(forklift.share(array), npt.NDArray[np.float64])
    assert_type(forklift.share({"a": array}), dict[str, npt.NDArray[np.float64]])
    assert_type(forklift.freeze([1, 2]), FrozenList)
    assert_type(forklift.freeze({"a": 1}), FrozenDict)
    assert_type(forklift.freeze((1, 2)), FrozenTuple)
    assert_type(forklift.freeze(array), npt.NDArray[np.float64])


if __name__ == "__main__":
    asyncio.run(coroutines(Queue()))

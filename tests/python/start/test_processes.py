"""Start methods, pools, executors, programs: whoever is a child shares the domain."""

from __future__ import annotations

import concurrent.futures
import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from typing import Any

import forklift
import forklift.multiprocessing
import numpy as np
import pytest
import support
import targets


def test_every_public_name_is_there() -> None:
    ours = forklift.multiprocessing
    strategies = {"get_all_sharing_strategies", "get_sharing_strategy", "set_sharing_strategy"}
    assert set(ours.__all__) == set(multiprocessing.__all__) | strategies  # as torch.multiprocessing's
    for name in multiprocessing.__all__:
        assert hasattr(ours, name)


# But for "spawn", which can be called besides (test_torch_names.py).
MODULES = [
    "process",
    "util",
    "managers",
    "reduction",
    "resource_tracker",
    "resource_sharer",
    "forkserver",
    "dummy",
    "dummy.connection",
]


@pytest.mark.parametrize("name", MODULES)
def test_other_modules_are_the_standard_librarys(name: str) -> None:
    __import__(f"forklift.multiprocessing.{name}")
    __import__(f"multiprocessing.{name}")
    assert sys.modules[f"forklift.multiprocessing.{name}"] is sys.modules[f"multiprocessing.{name}"]


def test_there_is_one_state() -> None:
    ours = forklift.multiprocessing
    assert ours.get_start_method() == multiprocessing.get_start_method()
    assert ours.current_process() is multiprocessing.current_process()
    assert ours.get_context() is ours.get_context(multiprocessing.get_start_method())
    before = multiprocessing.get_start_method()
    try:
        ours.set_start_method("spawn", force=True)
        assert multiprocessing.get_start_method() == "spawn"
        multiprocessing.set_start_method("forkserver", force=True)
        assert ours.get_context().get_start_method() == "forkserver"
    finally:
        multiprocessing.set_start_method(before, force=True)
    with pytest.raises(RuntimeError, match="context has already been set"):
        ours.set_start_method("spawn")
    with pytest.raises(ValueError, match="cannot find context"):
        ours.get_context("teleport")


def test_children_of_children(ctx: Any) -> None:
    queue = ctx.Queue()
    child = ctx.Process(target=targets.nested, args=(ctx.get_start_method(), queue))
    child.start()
    code, array = queue.get(timeout=60)
    child.join()
    assert code == 0
    assert (array == np.arange(50_000)).all()


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_the_standard_librarys_process_with_our_queue(method: str) -> None:
    context = multiprocessing.get_context(method)
    queue = forklift.multiprocessing.get_context(method).Queue()
    child = context.Process(target=targets.put_one, args=(queue, np.arange(100_000)))
    child.start()
    assert queue.get(timeout=60)[-1] == 99_999
    child.join()
    del child


def test_our_process_with_the_standard_librarys_queue(ctx: Any) -> None:
    queue = multiprocessing.get_context(ctx.get_start_method()).Queue()
    child = ctx.Process(target=targets.put_one, args=(queue, np.arange(1000)))
    child.start()
    assert queue.get(timeout=60)[-1] == 999
    child.join()
    queue.close()
    queue.join_thread()
    queue._reader.close()


def test_a_queue_twice_among_the_arguments(ctx: Any) -> None:
    queue = ctx.Queue()
    child = ctx.Process(target=targets.put_all, args=(queue, [1, 2]))
    child._kwargs = {}
    child.start()
    assert [queue.get(timeout=60), queue.get(timeout=60)] == [1, 2]
    child.join()
    both = ctx.Process(target=targets.echo, args=(queue, queue))
    queue.put(targets.STOP)
    both.start()
    both.join(support.DEADLINE)
    assert both.exitcode == 0


def test_a_closed_queue_is_open_in_the_child() -> None:
    context = forklift.multiprocessing.get_context("fork")
    queue = context.Queue()
    other = context.Queue()
    other.close()
    child = context.Process(target=targets.put_one, args=(other, 1))
    child.start()
    child.join()
    assert child.exitcode == 0
    assert queue.empty()


def test_a_bare_fork() -> None:
    queue = forklift.multiprocessing.Queue()
    child = os.fork()
    if child == 0:
        try:
            queue.put(np.ones(100_000))
        finally:
            os._exit(0)
    assert queue.get(timeout=20).sum() == 100_000
    os.waitpid(child, 0)


def test_pool(ctx: Any) -> None:
    with ctx.Pool(2) as pool:
        assert pool.map(targets.square, range(100)) == [i * i for i in range(100)]
        assert sum(a[0] for a in pool.imap_unordered(targets.full_of, range(10))) == 45
        assert pool.apply_async(targets.square, (3,)).get(timeout=30) == 9
        assert (pool.apply(targets.square, (np.arange(50_000),)) == np.arange(50_000) ** 2).all()
        with pytest.raises(RuntimeError, match="on purpose"):
            pool.map(targets.fail, [1, 2])
        assert pool.starmap(max, [(1, 2), (4, 3)]) == [2, 4]
        pool.close()
        pool.join()


def test_pool_recycles_its_workers() -> None:
    with forklift.multiprocessing.get_context("fork").Pool(2, maxtasksperchild=3) as pool:
        assert pool.map(targets.square, range(30), chunksize=1) == [i * i for i in range(30)]
        pool.close()
        pool.join()


def test_pool_that_is_terminated_while_it_works() -> None:
    pool = forklift.multiprocessing.get_context("fork").Pool(2)
    pool.map_async(targets.full_of, range(1000), chunksize=1)
    pool.terminate()
    pool.join()
    del pool


def test_idle_workers_end_with_their_parent() -> None:
    code = """
import os, signal, sys
from forklift.multiprocessing import get_context
pool = get_context("fork").Pool(2)
pool.map(abs, range(10))
print(*[p.pid for p in pool._pool], flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    result = subprocess.run(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
    )
    assert result.returncode == -signal.SIGKILL
    workers = [int(pid) for pid in result.stdout.split()]
    assert len(workers) == 2

    def gone(pid: int) -> bool:
        try:
            with open(f"/proc/{pid}/stat") as stat:
                return stat.read().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            return True

    support.until(lambda: all(map(gone, workers)), "the workers' end", 10)


def test_executor(ctx: Any) -> None:
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=ctx) as executor:
        assert list(executor.map(targets.square, range(30))) == [i * i for i in range(30)]
        future = executor.submit(targets.full_of, 2.0)
        assert future.result(timeout=30).sum() == 200_000
        with pytest.raises(RuntimeError, match="on purpose"):
            executor.submit(targets.fail, 1).result(timeout=30)


def test_executor_whose_worker_dies() -> None:
    context = forklift.multiprocessing.get_context("fork")
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as executor:
        with pytest.raises(concurrent.futures.process.BrokenProcessPool):
            executor.submit(targets.die, 1).result(timeout=30)
    gc.collect()


def test_manager_and_locks_are_inherited(ctx: Any) -> None:
    with ctx.Manager() as manager:
        shared = manager.dict(a=1)
        assert shared["a"] == 1
    with ctx.Lock():
        pass
    assert ctx.Value("i", 3).value == 3


def test_what_a_dead_child_held_is_given_back(ctx: Any) -> None:
    queue, ready = ctx.Queue(), ctx.Queue()
    before = forklift.stats()["processes"]
    child = ctx.Process(target=targets.block_in_get, args=(queue, ready))
    child.start()
    ready.get(timeout=60)
    assert forklift.stats()["processes"] == before + 1
    child.kill()
    child.join()
    assert forklift.stats()["processes"] == before


def test_messages_survive_their_sender(ctx: Any) -> None:
    queue = ctx.Queue()
    child = ctx.Process(target=targets.put_all, args=(queue, [1, np.arange(100_000), "three"]))
    child.start()
    child.join()
    assert queue.get(timeout=5) == 1
    assert queue.get(timeout=5)[-1] == 99_999
    assert queue.get(timeout=5) == "three"


def test_messages_of_a_dropped_queue_are_given_back() -> None:
    queue = forklift.multiprocessing.Queue()
    for _ in range(10):
        queue.put(np.zeros(100_000))
        queue.put(forklift.zeros([10_000]))
    assert forklift.stats()["blocks"] >= 20
    del queue
    gc.collect()
    assert forklift.stats()["blocks"] == 0


def test_a_daemon_thread_in_get_does_not_disturb_the_exit() -> None:
    code = """
import threading
from forklift.multiprocessing import Queue
queue = Queue()
for _ in range(8):
    threading.Thread(target=queue.get, daemon=True).start()
threading.Thread(target=lambda: [queue.put(1) for _ in iter(int, 1)], daemon=True).start()
"""
    for _ in range(3):
        result = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        )
        assert (result.returncode, result.stderr) == (0, "")


def test_other_threads_run_while_one_waits() -> None:
    queue = forklift.multiprocessing.Queue()
    ran = threading.Event()
    thread = threading.Thread(target=ran.set)
    waiter = threading.Thread(target=queue.get)
    waiter.start()
    thread.start()
    assert ran.wait(5)
    queue.put(1)
    waiter.join(5)
    assert not waiter.is_alive()
    thread.join()

"""A pool whose workers are killed, stopped, or leave: each task ends, in a result or an error."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import forklift.multiprocessing as mp
import pool_targets as targets
import pytest
import support
from forklift.multiprocessing.pool import PoolStoppedError, TaskTimeoutError, WorkerDiedError


@pytest.fixture
def fork() -> Any:
    return mp.get_context("fork")


def test_a_busy_worker_is_killed_in_map(ctx: Any) -> None:
    with ctx.Pool(2) as pool:
        with pytest.raises(WorkerDiedError, match="task 7 of map") as caught:
            pool.map(targets.die_at, range(20), 1)
        assert caught.value.exitcode == -signal.SIGKILL
        assert caught.value.pid > 0
        assert "SIGKILL" in str(caught.value)
        assert pool.map(targets.square, range(20), 1) == [i * i for i in range(20)]
        support.until(lambda: len(pool._pool) == 2, "the dead worker is replaced")


def test_an_idle_worker_is_killed(ctx: Any) -> None:
    with ctx.Pool(2) as pool:
        assert pool.map(targets.square, range(4), 1) == [0, 1, 4, 9]
        victim = pool._pool[0]
        os.kill(victim.pid, signal.SIGKILL)
        assert pool.map(targets.square, range(200), 1) == [i * i for i in range(200)]
        support.until(lambda: len(pool._pool) == 2 and victim not in pool._pool, "a new worker")


def test_a_starting_worker_is_killed(ctx: Any, tmp_path: Path) -> None:
    mark = tmp_path / "first"
    with ctx.Pool(1, targets.slow_start, (str(mark),)) as pool:
        result = pool.map_async(targets.square, range(5), 1)
        pid = support.until(lambda: mark.exists() and mark.read_text(), "the worker starts")
        os.kill(int(pid), signal.SIGKILL)
        assert result.get(support.DEADLINE) == [i * i for i in range(5)]


@pytest.mark.parametrize("call", ["apply", "apply_async", "imap", "imap_unordered", "callback"])
def test_each_call_ends_when_its_worker_is_killed(fork: Any, call: str) -> None:
    def ask(pool: Any) -> None:
        if call == "apply":
            pool.apply(targets.die, (signal.SIGKILL,))
        elif call == "apply_async":
            pool.apply_async(targets.die, (signal.SIGKILL,)).get(support.DEADLINE)
        elif call == "callback":
            errors: list[Exception] = []
            result = pool.apply_async(targets.die, (signal.SIGKILL,), error_callback=errors.append)
            result.wait(support.DEADLINE)
            raise errors[0]
        else:
            getattr(pool, call)(targets.die, [signal.SIGKILL]).next(support.DEADLINE)

    with fork.Pool(2) as pool, pytest.raises(WorkerDiedError, match="die"):
        ask(pool)


def test_a_worker_that_leaves(fork: Any) -> None:
    with fork.Pool(1) as pool:
        with pytest.raises(WorkerDiedError, match="exit code 3") as caught:
            pool.apply(targets.leave, (3,))
        assert caught.value.exitcode == 3
        assert pool.apply(targets.square, (2,)) == 4


def test_all_are_killed_again_and_again(fork: Any) -> None:
    with fork.Pool(3) as pool:
        for _ in range(5):
            result = pool.map_async(targets.nap, [0.01] * 30, 1)
            for process in list(pool._pool):
                process.kill()
            try:
                assert result.get(support.DEADLINE) == [0.01] * 30
            except WorkerDiedError:
                pass
        assert pool.map(targets.square, range(30), 1) == [i * i for i in range(30)]


def test_retries(ctx: Any, tmp_path: Path) -> None:
    with ctx.Pool(2) as pool:
        assert pool.apply(targets.die_once, (str(tmp_path / "a"),), retries=1) == "done"
        paths = [str(tmp_path / str(i)) for i in range(3)]
        assert pool.map(targets.die_once, paths, 1, retries=2) == ["done"] * 3
        with pytest.raises(WorkerDiedError):
            pool.apply(targets.die, (signal.SIGKILL,), retries=2)


def test_a_task_over_its_time(ctx: Any) -> None:
    with ctx.Pool(2) as pool:
        begin = time.monotonic()
        with pytest.raises(TaskTimeoutError, match="task 0 of apply") as caught:
            pool.apply(targets.nap, (60,), timeout=0.2)
        assert isinstance(caught.value, TimeoutError)
        assert isinstance(caught.value, multiprocessing.TimeoutError)
        assert time.monotonic() - begin < support.DEADLINE
        with pytest.raises(TaskTimeoutError, match="task 2 of map"):
            pool.map(targets.nap, [0, 0, 60, 0], timeout=0.5)
        assert pool.map(targets.square, range(4), timeout=30) == [0, 1, 4, 9]
    with pytest.raises(ValueError, match="must be positive"), ctx.Pool(1, timeout=-1) as pool:
        pool.apply(targets.square, (1,))


def test_a_task_over_its_time_is_not_run_again(fork: Any, tmp_path: Path) -> None:
    with fork.Pool(1, timeout=0.3, retries=3) as pool:
        with pytest.raises(TaskTimeoutError):
            pool.apply(targets.wait_once, (str(tmp_path / "a"),))
        assert pool.apply(targets.wait_once, (str(tmp_path / "a"),)) == "done"


def test_an_initializer_that_fails(ctx: Any) -> None:
    with ctx.Pool(1, targets.bad_start) as pool:
        with pytest.raises(PoolStoppedError, match="cannot be run") as caught:
            pool.map(targets.square, [1, 2])
        cause = caught.value.__cause__
        assert isinstance(cause, RuntimeError)
        assert "cannot be made ready" in str(cause)
        assert "in bad_start" in str(cause.__cause__)


def test_terminate_ends_what_is_waited_for(ctx: Any) -> None:
    pool = ctx.Pool(2)
    result = pool.map_async(targets.nap, [60] * 100, 1)
    turns = pool.imap(targets.nap, iter([60, 60]))
    failed: list[Exception] = []
    waiter = threading.Thread(target=lambda: failed.append(_error_of(result)))
    waiter.start()
    begin = time.monotonic()
    pool.terminate()
    pool.join()
    waiter.join(support.DEADLINE)
    assert time.monotonic() - begin < support.DEADLINE
    assert isinstance(failed[0], PoolStoppedError)
    with pytest.raises(PoolStoppedError):
        turns.next(support.DEADLINE)


REFUSED = {
    "apply": lambda pool: pool.apply(targets.same, (1,)),
    "apply_async": lambda pool: pool.apply_async(targets.same, (1,)).get(support.DEADLINE),
    "map": lambda pool: pool.map(targets.same, range(5), 1),
    "map_async": lambda pool: pool.map_async(targets.same, range(5), 1).get(support.DEADLINE),
    "imap": lambda pool: pool.imap(targets.same, iter(range(5))).next(support.DEADLINE),
}


@pytest.mark.parametrize("call", REFUSED)
def test_an_error_of_a_refused_task_keeps_no_pool(fork: Any, call: str) -> None:
    """Its traceback refers to the call, so the call must not refer to it. (What is left is checked after.)"""
    with fork.Pool(1) as pool:
        pool._core.terminate()  # as by another thread, in the middle of the call
        with pytest.raises(PoolStoppedError):
            REFUSED[call](pool)


def test_an_error_that_nobody_asks_for_keeps_no_pool(fork: Any) -> None:
    with fork.Pool(1) as pool:
        pool.map_async(targets.same, targets.Unlistable()).wait(support.DEADLINE)


def _error_of(result: Any) -> Exception:
    try:
        result.get(support.DEADLINE)
    except Exception as error:
        return error
    raise AssertionError("it has a result")


def test_a_stopped_worker_does_not_hold_terminate(fork: Any) -> None:
    with fork.Pool(2) as pool:
        result = pool.apply_async(targets.die, (signal.SIGSTOP,))
        pids = [process.pid for process in pool._pool]
        support.until(
            lambda: any("(stopped)" in Path(f"/proc/{pid}/status").read_text() for pid in pids),
            "a stopped worker",
        )
        begin = time.monotonic()
    assert time.monotonic() - begin < support.DEADLINE
    with pytest.raises(PoolStoppedError):
        result.get(0)


INTERRUPTED = """
import os, signal, sys, threading, time
import forklift.multiprocessing as mp
sys.path.insert(0, sys.argv[1])
import pool_targets as targets
if __name__ == "__main__":
    with mp.get_context(sys.argv[2]).Pool(2) as pool:
        pool.map(targets.square, range(4), 1)

        def interrupt():
            print(time.monotonic(), flush=True)
            os.killpg(0, signal.SIGINT)

        threading.Timer(0.3, interrupt).start()
        task = {"naps": targets.nap, "busy": targets.spin, "idle": targets.nap}[sys.argv[4]]
        items = [0] if sys.argv[4] == "idle" else [30] * 4
        if sys.argv[3] == "map":
            pool.map(task, items, 1)
        elif sys.argv[3] == "get":
            pool.map_async(task, items, 1).get()
        elif sys.argv[3] == "imap":
            list(pool.imap(task, items))
        elif sys.argv[3] == "apply":
            pool.apply(task, items[:1])
        while True:
            time.sleep(0.05)  # a signal that comes just before a sleep does not end it
"""

CALLS = ["map naps", "map busy", "map idle", "get naps", "imap naps", "apply busy"]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("call", CALLS)
def test_ctrl_c_ends_all_with_one_traceback(method: str, call: str, tmp_path: Path) -> None:
    """Pool and parent are gone within a second: nobody has its end of the pipes open any more."""
    program = tmp_path / "program.py"
    program.write_text(INTERRUPTED)
    done = subprocess.run(
        [sys.executable, str(program), str(Path(__file__).parents[1]), method, *call.split()],
        capture_output=True,
        text=True,
        timeout=60,
        start_new_session=True,
    )
    seconds = time.monotonic() - float(done.stdout)
    assert done.stderr.count("Traceback") == 1, done.stderr
    assert "KeyboardInterrupt" in done.stderr
    assert done.returncode == -signal.SIGINT
    assert seconds < 1.0


ORPHANED = """
import sys, time
import forklift.multiprocessing as mp
sys.path.insert(0, sys.argv[1])
import pool_targets as targets
if __name__ == "__main__":
    pool = mp.get_context(sys.argv[2]).Pool(2)
    print(*{pid for pid in pool.map(targets.pid_of, range(100), 1)}, *[p.pid for p in pool._pool], flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_idle_workers_end_with_their_parent(method: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(ORPHANED)
    parent = subprocess.Popen(
        [sys.executable, str(program), str(Path(__file__).parents[1]), method],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    pids = {int(pid) for pid in parent.stdout.readline().split()}
    parent.kill()
    parent.wait()
    parent.stdout.close()
    support.until(lambda: not any(_alive(pid) for pid in pids), "the workers end", 10)


def _alive(pid: int) -> bool:
    try:
        return "(zombie)" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def test_a_pool_left_alone_at_the_interpreters_end() -> None:
    code = (
        "import forklift.multiprocessing as mp; p = mp.Pool(2); print(p.map(abs, range(9), 1)); "
        "r = p.map_async(abs, range(9)); i = p.imap(abs, iter(range(5)))"
    )
    for _ in range(20):  # where its threads are when the interpreter ends is a matter of luck
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        assert done.stdout == "[0, 1, 2, 3, 4, 5, 6, 7, 8]\n"

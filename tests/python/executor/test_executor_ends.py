"""Starts, breaks and ends of ProcessPoolExecutor, beside the standard library's."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import executor_targets as targets
import pytest
import support
from executor_targets import Kind

DEADLINE = support.DEADLINE


@pytest.mark.parametrize(
    "call", [(targets.square, targets.Unreadable()), (targets.unreadable,), (targets.die,)]
)
def test_what_breaks_the_pool(make: Kind, call: Any, tmp_path: Path, capfd: Any) -> None:
    with make() as executor:
        other = executor.submit(targets.wait_for, str(tmp_path), "never")
        future = executor.submit(*call)
        for each in (future, other):
            with pytest.raises(BrokenProcessPool, match="was terminated abruptly while the future was"):
                each.result(DEADLINE)
        with pytest.raises(BrokenProcessPool, match="A child process terminated abruptly"):
            executor.submit(targets.square, 1)
        with pytest.raises(BrokenProcessPool):
            executor.map(targets.square, [1])
        assert executor._broken
    capfd.readouterr()  # the worker's traceback


def test_a_killed_idle_worker_breaks_the_pool(make: Kind) -> None:
    with make() as executor:
        executor.submit(targets.square, 1).result(DEADLINE)
        process = next(iter(executor._processes.values()))
        os.kill(process.pid, signal.SIGKILL)
        support.until(lambda: executor._broken, "the pool to be broken")
        with pytest.raises(BrokenProcessPool):
            executor.submit(targets.square, 1)


def test_initializer(make: Kind) -> None:
    with make(1, initializer=targets.note, initargs=("ready",)) as executor:
        assert executor.submit(targets.noted).result(DEADLINE) == ["ready"]
    with pytest.raises(TypeError, match="initializer must be a callable"):
        make(initializer=3)


def test_an_initializer_that_fails_breaks_the_pool(make: Kind, capfd: Any) -> None:
    with make(initializer=targets.refuse, initargs=("that",)) as executor:
        try:
            future = executor.submit(targets.square, 1)
        except BrokenProcessPool:
            pass
        else:
            assert isinstance(future.exception(DEADLINE), BrokenProcessPool)
        support.until(lambda: executor._broken, "the pool to be broken")
        with pytest.raises(BrokenProcessPool):
            executor.submit(targets.square, 1)
    text = capfd.readouterr().err
    if make.method == "spawn":  # a forked child has pytest's handlers, the fork server its own stderr
        assert "Exception in initializer:" in text
        assert "cannot begin with that" in text


def test_after_shutdown(make: Kind) -> None:
    executor = make()
    assert executor.submit(targets.square, 3).result(DEADLINE) == 9
    executor.shutdown()
    executor.shutdown()
    with pytest.raises(RuntimeError, match="cannot schedule new futures after shutdown"):
        executor.submit(targets.square, 3)
    with pytest.raises(RuntimeError, match="cannot schedule new futures after shutdown"):
        executor.map(targets.square, [3])
    assert executor._processes is None
    unused = make()
    with unused as same:
        assert same is unused


def test_shutdown_without_waiting(make: Kind, tmp_path: Path) -> None:
    executor = make()
    future = executor.submit(targets.wait_for, str(tmp_path), "go")
    manager = executor._executor_manager_thread
    executor.shutdown(wait=False)
    assert not future.done()
    (tmp_path / "go").touch()
    assert future.result(DEADLINE) == "go"
    manager.join(DEADLINE)
    assert not manager.is_alive()


def test_shutdown_that_cancels(make: Kind, tmp_path: Path) -> None:
    executor = make(1)
    first = executor.submit(targets.wait_for, str(tmp_path), "go", "begun")
    rest = [executor.submit(targets.square, i) for i in range(50)]
    support.until((tmp_path / "begun").exists, "the first call to begin")
    threading.Timer(0.05, (tmp_path / "go").touch).start()
    executor.shutdown(cancel_futures=True)
    assert first.result(0) == "go"
    assert sum(each.cancelled() for each in rest) >= 45
    assert all(each.done() for each in rest)


def test_an_executor_that_is_collected_ends_its_workers(make: Kind) -> None:
    executor = make()
    future, results = executor.submit(targets.square, 3), executor.map(targets.square, range(5))
    manager = executor._executor_manager_thread
    processes = executor._processes
    pids = list(processes)
    del executor
    gc.collect()
    manager.join(DEADLINE)
    assert not manager.is_alive()
    assert future.result(0) == 9
    assert list(results) == [0, 1, 4, 9, 16]
    for pid in pids:
        support.until(lambda pid=pid: not Path(f"/proc/{pid}").exists(), "the worker to end")


def test_max_tasks_per_child(make: Kind) -> None:
    if not make.ours and sys.version_info < (3, 11):
        pytest.skip("the standard library has max_tasks_per_child since Python 3.11; ours always")
    if make.method == "fork":
        with pytest.raises(ValueError, match="max_tasks_per_child is incompatible with the 'fork'"):
            make(1, max_tasks_per_child=2)
        return
    with make(1, max_tasks_per_child=2) as executor:
        pids = [executor.submit(targets.pid).result(DEADLINE) for _ in range(6)]
    assert pids[0] == pids[1] != pids[2] == pids[3] != pids[4] == pids[5]
    with pytest.raises(ValueError, match="max_tasks_per_child must be >= 1"):
        make(1, max_tasks_per_child=0)
    with pytest.raises(TypeError, match="max_tasks_per_child must be an integer"):
        make(1, max_tasks_per_child="2")


def test_workers_start_on_demand(make: Kind) -> None:
    with make(3) as executor:
        for _ in range(3):
            executor.submit(targets.square, 1).result(DEADLINE)
        assert len(executor._processes) == (3 if make.method == "fork" else 1)


def test_workers_are_no_daemons(executor: Any) -> None:
    assert not executor.submit(_is_daemon).result(DEADLINE)


def _is_daemon() -> bool:
    return multiprocessing.current_process().daemon


def test_the_end_of_a_program(make: Kind, tmp_path: Path) -> None:
    library = "forklift.multiprocessing" if make.ours else "multiprocessing"
    kind = "forklift.ProcessPoolExecutor" if make.ours else "concurrent.futures.ProcessPoolExecutor"
    script = tmp_path / "program.py"
    script.write_text(
        f"""
import concurrent.futures, time, {library}, forklift
def say(seconds, text):
    time.sleep(seconds)
    print(text, flush=True)
if __name__ == "__main__":
    executor = {kind}(2, mp_context={library}.get_context("{make.method}"))
    for _ in range(3):
        executor.submit(say, 0.2, "apple")
"""
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60)
    # Two workers that print at a time may mix words and newlines.
    assert (done.returncode, sorted(done.stdout), done.stderr) == (0, sorted("apple\n" * 3), "")

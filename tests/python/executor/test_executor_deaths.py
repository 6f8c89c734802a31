"""What the death of a worker does to an executor, in the three modes of `on_death`."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import executor_targets as targets
import forklift
import pytest
import support

DEADLINE = support.DEADLINE


def make(ctx: Any, on_death: Any, workers: int = 2, **options: Any) -> Any:
    return forklift.ProcessPoolExecutor(workers, mp_context=ctx, on_death=on_death, **options)


def test_a_call_that_kills_its_worker_fails_alone(ctx: Any) -> None:
    with make(ctx, "fail-task") as executor:
        futures = [executor.submit(targets.die if i == 3 else targets.square, i) for i in range(8)]
        error = futures[3].exception(DEADLINE)
        assert isinstance(error, forklift.WorkerDiedError)
        assert error.exitcode == -signal.SIGKILL
        assert "killed by signal SIGKILL" in str(error)
        assert [each.result(DEADLINE) for each in futures if each is not futures[3]] == [
            i * i for i in range(8) if i != 3
        ]
        assert executor.submit(targets.square, 3).result(DEADLINE) == 9
        assert not executor._broken


def test_a_call_runs_again(ctx: Any, tmp_path: Path) -> None:
    with make(ctx, "retry") as executor:
        futures = [executor.submit(targets.die_once, str(tmp_path), i) for i in range(5)]
        assert [each.result(DEADLINE) for each in futures] == list(range(5))
        assert list(executor.map(targets.die_once, [str(tmp_path)] * 3, range(5, 8))) == [5, 6, 7]
        with pytest.raises(forklift.WorkerDiedError):
            executor.submit(targets.die).result(DEADLINE)


def test_an_initializer_that_fails_breaks_every_pool(ctx: Any) -> None:
    for on_death in ("break", "retry", "fail-task"):
        with make(ctx, on_death, initializer=targets.refuse, initargs=("it",)) as executor:
            try:
                future = executor.submit(targets.square, 1)
            except BrokenProcessPool:
                continue  # it broke before
            error = future.exception(DEADLINE)
            assert isinstance(error, BrokenProcessPool)
            # A worker may have ended before what the other one said was read.
            assert isinstance(error.__cause__, (RuntimeError, forklift.WorkerDiedError))


def test_who_broke_the_pool_is_named(ctx: Any) -> None:
    with make(ctx, "break") as executor:
        error = executor.submit(targets.die).exception(DEADLINE)
        assert isinstance(error, BrokenProcessPool)
        assert isinstance(error.__cause__, forklift.WorkerDiedError)
        assert "was killed by signal 9" in str(error.__cause__)


def test_what_cannot_be_unpickled_fails_alone(ctx: Any) -> None:
    with make(ctx, "fail-task") as executor:
        with pytest.raises(LookupError, match="not to be unpickled"):
            executor.submit(targets.square, targets.Unreadable()).result(DEADLINE)
        with pytest.raises(forklift.ResultDecodingError, match="not to be unpickled"):
            executor.submit(targets.unreadable).result(DEADLINE)
        assert executor.submit(targets.square, 3).result(DEADLINE) == 9


def test_an_exception_that_cannot_be_unpickled_fails_alone(ctx: Any) -> None:
    with make(ctx, "break") as executor:
        error = executor.submit(targets.raise_odd).exception(DEADLINE)
        assert isinstance(error, forklift.ResultDecodingError)
        assert "raise OddError(1, 2)" in str(error.__cause__)
        assert executor.submit(targets.square, 3).result(DEADLINE) == 9


@pytest.mark.parametrize("how", ["terminate_workers", "kill_workers"])
@pytest.mark.parametrize("on_death", ["break", "retry"])
def test_ending_the_workers(ctx: Any, tmp_path: Path, how: str, on_death: str) -> None:
    executor = make(ctx, on_death)
    begun = executor.submit(targets.wait_for, str(tmp_path), "never", "begun")
    rest = [executor.submit(targets.wait_for, str(tmp_path), "never") for _ in range(20)]
    support.until((tmp_path / "begun").exists, "the first call to begin")
    manager = executor._executor_manager_thread
    getattr(executor, how)()
    manager.join(DEADLINE)
    assert not manager.is_alive()
    assert isinstance(begun.exception(0), BrokenProcessPool)
    assert all(each.cancelled() or isinstance(each.exception(0), BrokenProcessPool) for each in rest)
    with pytest.raises(RuntimeError):
        executor.submit(targets.square, 1)


@pytest.mark.parametrize("on_death", ["break", "retry", "fail-task"])
def test_kills_at_random_moments(ctx: Any, on_death: str) -> None:
    """Every future ends, and as its mode says; the executor works on, or is broken, and nothing is left."""
    chance = random.Random(f"{on_death} {ctx.get_start_method()}")
    for _ in range(3):
        with make(ctx, on_death) as executor:
            assert executor.submit(targets.square, 2).result(DEADLINE) == 4
            stop = threading.Event()

            def kill(executor: Any = executor, stop: threading.Event = stop) -> None:
                for _ in range(1 if on_death == "break" else 6):
                    if stop.wait(chance.uniform(0.0, 0.03)):
                        return
                    with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
                        for pid in list(executor._processes)[:1]:
                            os.kill(pid, signal.SIGKILL)

            futures = [executor.submit(time.sleep, 0.001) for _ in range(100)]
            killer = threading.Thread(target=kill)
            killer.start()
            try:
                futures += [executor.submit(targets.square, i) for i in range(2_000)]
            except BrokenProcessPool:
                assert on_death == "break"
            errors = [each.exception(DEADLINE) for each in futures]
            stop.set()
            killer.join()
            kinds = {type(each) for each in errors if each is not None}
            if on_death == "break":
                assert kinds <= {BrokenProcessPool}
                continue
            assert kinds <= {forklift.WorkerDiedError}
            assert len([each for each in errors if each]) <= 6
            assert executor.submit(targets.square, 5).result(DEADLINE) == 25


def test_wrong_modes() -> None:
    with pytest.raises(ValueError, match="on_death must be one of 'break', 'retry', 'fail-task', not 'x'"):
        forklift.ProcessPoolExecutor(1, on_death="x")  # type: ignore[arg-type]

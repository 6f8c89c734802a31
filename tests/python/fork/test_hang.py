"""``start(timeout=...)``: a child that hangs in its first seconds is noticed, with its stacks."""

from __future__ import annotations

import threading
import time
from typing import Any

import fork_targets
import forklift
import forklift.multiprocessing
import pytest
import support

fork = forklift.multiprocessing.get_context("fork")


def started(target: Any, *args: Any, timeout: float = 20, method: str = "fork") -> Any:
    process = forklift.multiprocessing.get_context(method).Process(target=target, args=args)
    process.start(timeout=timeout)
    return process


@pytest.mark.parametrize(
    "target", [fork_targets.lock_twice, fork_targets.lock_twice_beside_a_thread], ids=["alone", "threads"]
)
def test_a_deadlock_is_noticed_long_before_the_time_out(
    target: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    begin = time.monotonic()
    process = started(target)
    with pytest.raises(forklift.ForkHangError) as caught:
        process.join(support.DEADLINE)
    assert time.monotonic() - begin < 10
    assert caught.value.pid == process.pid
    assert target.__name__ in caught.value.stacks, "Python's stack"
    assert "PyThread_acquire_lock_timed" in caught.value.stacks, "the native stack"
    assert process.exitcode == -9
    # Who does not wait for the child reads it as well.
    assert "hangs: each of its threads waits" in capfd.readouterr().err


def test_the_stacks_are_of_every_thread() -> None:
    process = started(fork_targets.lock_twice_beside_a_thread)
    with pytest.raises(forklift.ForkHangError) as caught:
        process.join(support.DEADLINE)
    assert caught.value.stacks.count("-- end of stack") == 2
    assert caught.value.stacks.count("most recent call first") >= 2


class NeverRuns(fork.Process):  # type: ignore[misc,name-defined]
    """Hangs before `run`, as in a handler that a library registered for forks."""

    def _bootstrap(self, parent_sentinel: int | None = None) -> int:
        fork_targets.lock_twice()
        return 0


def test_a_child_that_never_comes_to_its_function_fails_the_start() -> None:
    process = NeverRuns()
    with pytest.raises(forklift.ForkHangError, match="each of its threads waits") as caught:
        process.start(timeout=20)
    assert "lock_twice" in caught.value.stacks
    assert not process.is_alive()


class LateRun(fork.Process):  # type: ignore[misc,name-defined]
    def _bootstrap(self, parent_sentinel: int | None = None) -> int:
        time.sleep(60)  # nobody waits for its end
        return 0


def test_a_child_that_is_too_late_fails_the_start() -> None:
    process = LateRun()
    with pytest.raises(forklift.ForkHangError, match=r"within 0\.3 s"):
        process.start(timeout=0.3)
    assert not process.is_alive()


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_deadlock_of_a_fresh_interpreter_is_noticed_without_stacks(method: str) -> None:
    process = started(fork_targets.lock_twice, method=method)
    with pytest.raises(forklift.ForkHangError, match="futex"):
        process.join(support.DEADLINE)


def test_children_that_wait_for_others_do_not_hang() -> None:
    queue = fork.Queue()
    waiting = started(fork_targets.get, queue, timeout=1.0)
    sleeping = started(fork_targets.sleep, 1.5, timeout=1.0)
    timed = started(fork_targets.wait_with_timeout, 1.5, timeout=1.0)
    sleeping.join(support.DEADLINE)
    timed.join(support.DEADLINE)
    assert sleeping.exitcode == timed.exitcode == 0
    queue.put(1)
    waiting.join(support.DEADLINE)
    assert waiting.exitcode == 0


def test_nothing_stays_of_a_watched_child() -> None:
    before = support.descriptors()
    process = started(fork_targets.nothing, timeout=30)
    process.join(support.DEADLINE)
    assert process.exitcode == 0
    process.close()

    def gone() -> bool:
        names = [thread.name for thread in threading.enumerate()]
        return "forklift-fork-watch" not in names and not set(support.descriptors()) - set(before)

    support.until(gone, "the watching thread to end")


def test_the_watching_thread_is_not_there_during_a_fork() -> None:
    process = started(fork_targets.sleep, 1.0, timeout=30)
    counts = fork.Queue()
    other = fork.Process(target=_count_threads, args=(counts,))
    other.start()
    threads = counts.get(timeout=support.DEADLINE)
    other.join(support.DEADLINE)
    process.join(support.DEADLINE)
    assert threads == [], "a child inherits no record of the thread"
    assert process.exitcode == 0


def _count_threads(queue: Any) -> None:
    queue.put([each.name for each in threading.enumerate() if each.name == "forklift-fork-watch"])


@pytest.mark.parametrize("timeout", [0, -1, float("nan")])
def test_a_time_out_is_positive(timeout: float) -> None:
    process = fork.Process(target=fork_targets.nothing)
    with pytest.raises(ValueError, match="positive"):
        process.start(timeout=timeout)
    assert process.pid is None


def test_jax_hangs_with_its_own_frames_in_the_error() -> None:
    pytest.importorskip("jax")
    code = """
    import warnings
    warnings.simplefilter("ignore")
    import time
    import jax, jax.numpy as jnp
    import forklift, forklift.multiprocessing as mp
    def child():
        time.sleep(4)  # it begins to hang in the second half of its seconds
        jnp.ones((600, 600)).sum().block_until_ready()
    jnp.ones((600, 600)).sum().block_until_ready()
    process = mp.get_context("fork").Process(target=child, daemon=True)
    process.start(timeout=6)
    try:
        process.join(30)
        print("no error, exit code", process.exitcode)
    except forklift.ForkHangError as error:
        print("jax" in error.stacks, "libjax" in error.stacks)
    """
    assert support.run_python(code) == "True True\n"

"""Threads that wait for results take the outcomes themselves: which ones, and who calls back."""

from __future__ import annotations

import concurrent.futures
import signal
import threading
import time
from pathlib import Path
from typing import Any

import executor_targets as targets
import pytest
import support

DEADLINE = support.DEADLINE


def test_callbacks_run_in_no_thread_that_waits(executor: Any, tmp_path: Path) -> None:
    """Such a thread may hold a lock that a callback needs."""
    ran: list[Any] = []
    slow = executor.submit(targets.wait_for, str(tmp_path), "gate")
    waiter = threading.Thread(target=slow.result, args=(DEADLINE,))
    waiter.start()
    support.until_asleep(waiter.native_id)
    quick = executor.submit(targets.wait_for, str(tmp_path), "gate")
    quick.add_done_callback(lambda future: ran.append((future.result(), threading.current_thread())))
    (tmp_path / "gate").touch()
    waiter.join(DEADLINE)
    assert not waiter.is_alive()
    support.until(lambda: ran, "the callback")
    value, thread = ran[0]
    assert value == "gate"
    assert thread not in (threading.current_thread(), waiter)


def test_a_result_comes_though_another_thread_waits_longer(executor: Any, tmp_path: Path) -> None:
    slow = executor.submit(targets.wait_for, str(tmp_path), "gate")
    results: list[Any] = []
    waiter = threading.Thread(target=lambda: results.append(slow.result(DEADLINE)))
    waiter.start()
    support.until_asleep(waiter.native_id)
    for number in range(20):
        assert executor.submit(targets.square, number).result(DEADLINE) == number * number
    done, _ = concurrent.futures.wait([executor.submit(targets.square, 4)], DEADLINE)
    assert [each.result() for each in done] == [16]
    assert not results
    (tmp_path / "gate").touch()
    waiter.join(DEADLINE)
    assert len(results) == 1


def test_a_future_ends_though_nobody_waits(executor: Any) -> None:
    future = executor.submit(targets.square, 5)
    support.until(future.done, "the end of the call")
    assert future.result() == 25


def test_time_outs(executor: Any, tmp_path: Path) -> None:
    slow = executor.submit(targets.wait_for, str(tmp_path), "gate")
    begin = time.monotonic()
    for wait in (slow.result, slow.exception):
        with pytest.raises(concurrent.futures.TimeoutError):
            wait(0.05)
    assert time.monotonic() - begin >= 0.1
    with pytest.raises(concurrent.futures.TimeoutError):
        slow.result(0)
    with pytest.raises(concurrent.futures.TimeoutError):
        slow.result(-1)
    with pytest.raises(TypeError):
        slow.result("soon")
    assert executor.submit(targets.square, 2).result(DEADLINE) == 4
    (tmp_path / "gate").touch()
    assert slow.exception(DEADLINE) is None


def test_a_signal_handler_ends_the_wait(executor: Any, tmp_path: Path) -> None:
    class Told(Exception):
        pass

    def tell(*_: Any) -> None:
        raise Told

    slow = executor.submit(targets.wait_for, str(tmp_path), "gate")
    before = signal.signal(signal.SIGALRM, tell)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(Told):
            slow.result(DEADLINE)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert executor.submit(targets.square, 2).result(DEADLINE) == 4
    (tmp_path / "gate").touch()
    slow.result(DEADLINE)


def test_a_signal_handler_may_wait_for_another_result(executor: Any, tmp_path: Path) -> None:
    got: list[Any] = []

    def work(*_: Any) -> None:
        got.append(executor.submit(targets.square, 6).result(DEADLINE))
        got.append(concurrent.futures.wait([executor.submit(targets.square, 7)], DEADLINE).not_done)
        (tmp_path / "gate").touch()

    slow = executor.submit(targets.wait_for, str(tmp_path), "gate")
    before = signal.signal(signal.SIGALRM, work)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        assert slow.result(DEADLINE) == "gate"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert got == [36, set()]


def test_a_cancelled_call_ends_beside_one_that_is_waited_for(executor: Any, tmp_path: Path) -> None:
    running = [executor.submit(targets.wait_for, str(tmp_path), "gate") for _ in range(3)]
    queued = [executor.submit(targets.square, i) for i in range(20)]
    waiter = threading.Thread(target=running[0].result, args=(DEADLINE,))
    waiter.start()
    support.until_asleep(waiter.native_id)
    assert queued[-1].cancel()
    with pytest.raises(concurrent.futures.CancelledError):
        queued[-1].result(DEADLINE)
    (tmp_path / "gate").touch()
    assert [each.result(DEADLINE) for each in queued[:-1]] == [i * i for i in range(19)]
    waiter.join(DEADLINE)

"""How tasks flow to the workers and results to the consumer: no stall, and not more memory than is useful."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import forklift.multiprocessing
import numpy as np
import pytest
from forklift.multiprocessing._pool import flow
from support import until

MEGABYTE = 1 << 20


@pytest.fixture
def fork() -> Any:
    return forklift.multiprocessing.get_context("fork")


def megabyte(number: int) -> bytes:
    return bytes([number % 256]) * MEGABYTE


def first(array: Any) -> Any:
    return array.flat[0]


class Counted:
    """Numbers, and how many of them were asked for."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.asked = 0

    def __iter__(self) -> Iterator[int]:
        for number in range(self.count):
            self.asked += 1
            yield number


def until_paused(flow: Any) -> None:
    """Wait until the iteration sends no more, since results wait to be taken."""

    until(lambda: flow.paused, "the iteration to pause")


@pytest.mark.parametrize("size", [10_000, 1_000_000])
@pytest.mark.parametrize("call", ["imap", "imap_unordered", "map"])
def test_large_arguments_are_not_sent_in_slices(fork: Any, call: str, size: int) -> None:
    # The feeder slept 50 ms for each pair of tasks: ten seconds for these.
    arguments = [np.full(size, number, np.uint8) for number in range(4)] * 100
    with fork.Pool(2) as pool:
        begin = time.monotonic()
        results = sorted(getattr(pool, call)(first, arguments, chunksize=1))
        assert time.monotonic() - begin < 4
    assert results == sorted([0, 1, 2, 3] * 100)


@pytest.fixture
def four_megabytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow, "_MOST_WAITING", 4 * MEGABYTE)


@pytest.mark.parametrize("call", ["imap", "imap_unordered"])
def test_a_slow_consumer_holds_up_the_iteration(fork: Any, four_megabytes: None, call: str) -> None:
    numbers = Counted(300)
    with fork.Pool(2) as pool:
        results = getattr(pool, call)(megabyte, numbers)
        assert next(results)[0] in range(300)
        until_paused(results._flow)
        assert numbers.asked < 100
        assert sorted([*(each[0] for each in results), -1])[0] == -1
        assert numbers.asked == 300


def test_a_list_is_held_up_too_and_nobody_else(fork: Any, four_megabytes: None) -> None:
    with fork.Pool(2) as pool:
        results = pool.imap(megabyte, range(300))
        until_paused(results._flow)
        assert results._flow.sent < 100
        assert pool.map(len, ["a", "bb"]) == [1, 2]
        assert [each[0] for each in results] == [number % 256 for number in range(300)]


def test_what_cannot_be_sent_does_not_count(fork: Any, four_megabytes: None) -> None:
    with fork.Pool(2) as pool:
        results = pool.imap(len, ((lambda: 0) if number % 2 else "abc" for number in range(500)))
        kinds = []
        for _ in range(500):
            try:
                kinds.append(next(results))
            except Exception:
                kinds.append(None)
    assert kinds == [3, None] * 250


def test_one_result_may_be_larger_than_what_may_wait(
    fork: Any, four_megabytes: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flow, "_MOST_WAITING", 1000)
    with fork.Pool(2) as pool:
        assert [each[0] for each in pool.imap(megabyte, range(100))] == list(range(100))


def test_closing_the_pool_lets_all_be_sent(fork: Any, four_megabytes: None) -> None:
    numbers = Counted(100)
    with fork.Pool(2) as pool:
        results = pool.imap(megabyte, numbers)
        until_paused(results._flow)
        pool.close()
        pool.join()
        assert numbers.asked == 100
        assert [each[0] for each in results] == list(range(100))


def test_a_dropped_iterator_lets_all_be_sent(fork: Any, four_megabytes: None) -> None:
    numbers = Counted(100)
    with fork.Pool(2) as pool:
        results = pool.imap(megabyte, numbers)
        until_paused(results._flow)
        del results
        until(lambda: numbers.asked == 100, "all to be sent")
        pool.close()
        pool.join()


def test_terminating_ends_a_paused_iteration(fork: Any, four_megabytes: None) -> None:
    numbers = Counted(100)
    with fork.Pool(2) as pool:
        results = pool.imap(megabyte, numbers)
        until_paused(results._flow)
    pool.join()
    assert numbers.asked < 100

"""``progress=`` of a pool's calls."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import threading
from typing import Any

import forklift.multiprocessing as mp
import pool_targets as targets
import pytest
import support


@pytest.fixture
def fork() -> Any:
    return mp.get_context("fork")


def test_progress(fork: Any) -> None:
    steps: list[int] = []
    with fork.Pool(2) as pool:
        assert pool.map(targets.square, range(100), 7, progress=steps.append) == [i * i for i in range(100)]
        assert sum(steps) == 100
        assert list(pool.imap(targets.square, range(10), progress=steps.append)) == [i * i for i in range(10)]
        assert sum(steps) == 110


BAR = """
import forklift.multiprocessing as mp
with mp.get_context("fork").Pool(2) as pool:
    pool.map(abs, range(30), progress=True)
    list(pool.imap_unordered(abs, range(40), progress=True))
"""


@pytest.mark.parametrize("chunksize", [1, 3])
@pytest.mark.parametrize("ordered", [True, False])
def test_progress_goes_on_after_an_exception(fork: Any, ordered: bool, chunksize: int) -> None:
    steps: list[int] = []
    items = [*range(9), -1, *range(2)]
    with fork.Pool(2) as pool:
        call = pool.imap if ordered else pool.imap_unordered
        turns = call(targets.refuse_negative, items, chunksize, progress=steps.append)
        got, failed = [], 0
        while True:
            try:
                got.append(turns.next(timeout=support.DEADLINE))
            except LookupError:
                failed += 1
            except StopIteration:
                break
        assert failed == 1
        assert sorted(got) == sorted([*range(9), *([0, 1] if chunksize == 1 else [])])
        assert sum(steps) == len(items)
        with pytest.raises(StopIteration):
            next(turns)


def test_progress_and_a_time_out(fork: Any) -> None:
    steps: list[int] = []
    with fork.Pool(1) as pool:
        turns = pool.imap(targets.nap, [30], progress=steps.append)
        with pytest.raises(multiprocessing.TimeoutError):
            turns.next(timeout=0.01)
        assert steps == []
        assert turns._length == 1  # what watchers of the standard library's iterator look at


@pytest.mark.parametrize("starred", [False, True])
def test_progress_of_what_nobody_waits_for(fork: Any, starred: bool) -> None:
    steps: list[int] = []
    items = [*range(20), -1, *range(30)]
    with fork.Pool(2) as pool:
        if starred:
            result = pool.starmap_async(
                targets.refuse_negative, [(i,) for i in items], 4, progress=steps.append
            )
        else:
            result = pool.map_async(targets.refuse_negative, items, 1, progress=steps.append)
        support.until(lambda: sum(steps) == len(items), "all items are reported")
        with pytest.raises(LookupError):
            result.get(support.DEADLINE)
        pool.map_async(abs, [], progress=steps.append).get(support.DEADLINE)
        assert sum(steps) == len(items)
        support.until(
            lambda: not any(each.name == "PoolProgress" for each in threading.enumerate()), "the thread's end"
        )


def test_progress_shows_a_bar() -> None:
    pytest.importorskip("tqdm")
    # tqdm's monitor and locks stay for good.
    done = subprocess.run([sys.executable, "-c", BAR], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "30/30" in done.stderr
    assert "40/40" in done.stderr

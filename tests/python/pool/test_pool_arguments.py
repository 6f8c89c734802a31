"""What a pool makes of its arguments, wrong ones among them; the standard library is the control."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from typing import Any

import forklift.multiprocessing as mp
import pool_targets as targets
import pytest
import support


@pytest.fixture
def fork() -> Any:
    return mp.get_context("fork")


@pytest.mark.parametrize(
    ("arguments", "kind", "says"),
    [
        ({"processes": 0.5}, ValueError, "at least 1"),
        ({"processes": 1.5}, TypeError, "(?s)."),
        ({"processes": "a"}, TypeError, "(?s)."),
        ({"maxtasksperchild": 1.5}, ValueError, "positive int"),
        ({"nope": 3}, TypeError, "nope"),
    ],
)
def test_wrong_arguments_of_both(either: Any, arguments: Any, kind: Any, says: str) -> None:
    with pytest.raises(kind, match=says):
        either.Pool(**arguments)


@pytest.mark.parametrize(
    ("options", "kind", "says"),
    [
        ({"processes": 10**6}, ValueError, "4096 at most"),
        ({"timeout": 0}, ValueError, "timeout must be positive"),
        ({"timeout": -1}, ValueError, "timeout must be positive"),
        ({"timeout": math.nan}, ValueError, "timeout must be positive"),
        ({"timeout": "1"}, TypeError, "a number of seconds or None, not '1'"),
        ({"timeout": [1]}, TypeError, "a number of seconds"),
        ({"retries": -1}, ValueError, "retries must be 0 or more"),
        ({"retries": 1.0}, TypeError, "retries must be an int, not 1.0"),
        ({"retries": None}, TypeError, "retries must be an int"),
        ({"max_memory": -1}, ValueError, "max_memory must be a number of bytes"),
        ({"max_memory": 1e9}, TypeError, r"as an int \(int\(2e9\), say\)"),
        ({"cpus": [10**6]}, ValueError, r"cannot run on \[1000000\]; this process may use \["),
        ({"cpus": [min(os.sched_getaffinity(0)), [-1]]}, ValueError, r"cannot run on \[-1\]"),
        ({"cpus": [[]]}, ValueError, r"cannot run on \[\]"),
        ({"cpus": 1}, TypeError, "cpus must be a list"),
        ({"cpus": "01"}, TypeError, "cpus must be a list"),
        ({"cpus": [0.5]}, TypeError, "cpus must be a list"),
    ],
)
def test_wrong_options_of_a_pool(fork: Any, options: Any, kind: Any, says: str) -> None:
    affinity = os.sched_getaffinity(0)
    with pytest.raises(kind, match=says):
        fork.Pool(**{"processes": 1, **options})
    assert os.sched_getaffinity(0) == affinity


@pytest.mark.parametrize(
    ("options", "kind", "says"),
    [
        ({"timeout": 0}, ValueError, "timeout must be positive"),
        ({"timeout": math.nan}, ValueError, "timeout must be positive"),
        ({"timeout": "1"}, TypeError, "a number of seconds or None, not '1'"),
        ({"retries": -1}, ValueError, "retries must be 0 or more"),
        ({"retries": "1"}, TypeError, "retries must be an int"),
    ],
)
def test_wrong_options_of_a_call(fork: Any, options: Any, kind: Any, says: str) -> None:
    with fork.Pool(1) as pool:
        for name in ("apply", "apply_async"):
            with pytest.raises(kind, match=says):
                getattr(pool, name)(targets.square, (1,), **options)
        for name in ("map", "map_async", "starmap", "starmap_async", "imap", "imap_unordered"):
            for items in ([1], []):
                with pytest.raises(kind, match=says):
                    getattr(pool, name)(targets.square, items, **options)
        for lookahead, error in ((0, ValueError), (math.nan, TypeError), ("1", TypeError)):
            with pytest.raises(error, match="lookahead must be"):
                pool.imap(targets.square, [1], lookahead=lookahead)
        assert pool.apply(targets.square, (3,)) == 9


def test_options_without_an_end(fork: Any) -> None:
    endless: Any = {"timeout": math.inf, "retries": 2**40}
    with fork.Pool(1, maxtasksperchild=2**70, max_memory=2**70, cpus=[], **endless) as pool:
        assert pool.apply(targets.square, (3,), **endless) == 9
        assert pool.map(targets.square, [1, 2], 2**70, **endless) == [1, 4]
        assert list(pool.imap(targets.square, [1, 2], 2**70, lookahead=2**70)) == [1, 4]
    with fork.Pool(1, timeout=10**400, cpus=range(10**6)[:1]) as pool:
        assert pool.apply(targets.square, (3,)) == 9


@pytest.mark.parametrize(("chunksize", "kind"), [(1.5, ValueError), ("a", TypeError)])
def test_wrong_chunks(either: Any, chunksize: Any, kind: Any) -> None:
    with either.Pool(1) as pool:
        # A list of one: the standard library waits for ever for some tasks of longer ones.
        for name in ("map", "starmap"):
            with pytest.raises(kind):
                getattr(pool, name)(targets.square, [1], chunksize)
        for name in ("imap", "imap_unordered"):
            with pytest.raises(kind):
                next(getattr(pool, name)(targets.square, [1], chunksize))
        assert pool.map(targets.square, [], chunksize) == []
        assert pool.map(targets.square, [1, 2], True) == [1, 4]
        assert list(pool.imap(targets.square, [1, 2], 1.0)) == [1, 4]


def test_no_function_and_no_arguments(either: Any) -> None:
    """What fails does so in the worker."""
    no_function = pytest.raises(TypeError, match="'NoneType' object is not callable")
    with either.Pool(1) as pool:
        result = pool.apply_async(None, (1,), {"x": 2})
        with no_function:
            result.get(support.DEADLINE)
        with no_function:
            pool.apply(None)
        for name in ("map", "starmap", "imap", "imap_unordered"):
            with no_function:
                list(getattr(pool, name)(None, [(1,)]))
        for name in ("map_async", "starmap_async"):
            result = getattr(pool, name)(None, [(1,)])
            with no_function:
                result.get(support.DEADLINE)
        for arguments in ((None,), (5,), ((1,), None), ((1,), []), ((1,), [1])):
            result = pool.apply_async(targets.square, *arguments)
            with pytest.raises(TypeError):
                result.get(support.DEADLINE)
        assert list(pool.imap(targets.same, iter([None, 1]))) == [None, 1]
        assert pool.apply(targets.square, (3,)) == 9


@pytest.mark.parametrize("name", ["map_async", "starmap_async"])
def test_callbacks_of_an_empty_map(either: Any, name: str) -> None:
    """None is called: not in the standard library either, of any version."""
    called: list[Any] = []

    def begin(items: Any, chunksize: int | None) -> Any:
        call = getattr(pool, name)
        return call(targets.square, items, chunksize, callback=called.append, error_callback=called.append)

    with either.Pool(1) as pool:
        results = [begin(*each) for each in (([], None), ([], 3), (iter([]), None), ([(1,), (2,)], 0))]
        assert all(result.ready() for result in results)
        assert [result.get(0) for result in results] == [[], [], [], [None, None]]
        assert [result.successful() for result in results] == [True] * 4
        # Callbacks are in order: those of the empty ones would have been before.
        pool.apply_async(abs, (-7,), callback=called.append).get(support.DEADLINE)
        pool.close()
        pool.join()
    assert called == [7]


def test_an_iterable_that_fails_calls_back(either: Any) -> None:
    called: list[Any] = []
    with either.Pool(1) as pool:
        result = pool.map_async(targets.same, targets.Unlistable(), 3, error_callback=called.append)
        with pytest.raises(ValueError, match="no items"):
            result.get(support.DEADLINE)
        pool.close()
        pool.join()
    assert [str(each) for each in called] == ["no items"]


def test_what_fails_before_it_is_a_pool_says_nothing_else() -> None:
    code = """
import forklift.multiprocessing as mp
from forklift.multiprocessing.pool import Pool
for wrong in (lambda: mp.Pool(1, nope=3), lambda: Pool(1, nope=3), lambda: Pool(0)):
    try:
        wrong()
    except (TypeError, ValueError):
        continue
    raise SystemExit("accepted")
class Mine(Pool):
    def __init__(self): raise OSError("of its own")
try:
    Mine()
except OSError: pass
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize("parties", [1.5, math.nan, math.inf, 2**40])
def test_a_barrier_that_nobody_would_pass(fork: Any, parties: Any) -> None:
    with pytest.raises(ValueError, match="nobody would ever pass"):
        fork.Barrier(parties)


def test_a_barrier_of_a_quotient(either: Any) -> None:
    barrier = either.Barrier(2 / 2)
    assert barrier.parties == 1
    assert barrier.wait(support.DEADLINE) == 0


RANGES = [range(0), range(1), range(100), range(7, -8, -3), range(2**70, 2**70 + 50, 9), range(5, 5)]


@pytest.mark.parametrize("numbers", RANGES, ids=str)
@pytest.mark.parametrize("chunksize", [None, 1, 3, 1000])
def test_the_numbers_of_a_range(either: Any, numbers: range, chunksize: int | None) -> None:
    """Chunks of a range travel as ranges."""
    with either.Pool(2) as pool:
        squares = [x * x for x in numbers]
        assert pool.map(targets.square, numbers, chunksize) == squares
        assert pool.map_async(targets.square, numbers, chunksize).get(support.DEADLINE) == squares
        assert list(pool.imap(targets.square, numbers, chunksize or 1)) == squares
        assert sorted(pool.imap_unordered(targets.square, numbers, chunksize or 1)) == sorted(squares)


def test_errors_at_numbers_of_a_range(either: Any) -> None:
    with either.Pool(2) as pool:
        for chunksize in (None, 1, 3):
            with pytest.raises(LookupError, match="negative") as caught:
                pool.map(targets.refuse_negative, range(3, -2, -1), chunksize)
            if type(either).__module__.startswith("forklift"):
                assert "item 4 of map(refuse_negative): -1" in str(caught.value.__cause__)
            with pytest.raises(TypeError):
                pool.starmap(targets.add, range(9), chunksize)

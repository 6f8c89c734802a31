"""ProcessPoolExecutor.map, beside the standard library's: each test here runs on both."""

from __future__ import annotations

import concurrent.futures
import gc
import weakref
from pathlib import Path
from typing import Any

import executor_targets as targets
import forklift
import numpy as np
import pytest
import support
from executor_targets import Kind

DEADLINE = support.DEADLINE


def test_map(executor: Any) -> None:
    expected = [i * i for i in range(30)]
    assert list(executor.map(targets.square, range(30))) == expected
    assert list(executor.map(targets.square, iter(range(30)), chunksize=7)) == expected
    assert list(executor.map(pow, [2, 3, 4], [5, 2])) == [32, 9]
    assert list(executor.map(targets.both, "ab", [1, 2], chunksize=5)) == [(("a", 1), {}), (("b", 2), {})]
    assert list(executor.map(targets.square, [])) == list(executor.map(targets.square)) == []
    with pytest.raises(ValueError, match="chunksize must be >= 1"):
        executor.map(targets.square, [1], chunksize=0)


@pytest.mark.parametrize("chunksize", [1, 3])
def test_map_of_a_failing_call(executor: Any, chunksize: int) -> None:
    results = executor.map(divmod, [4] * 9, [2, 2, 2, 0, 2, 2, 2, 2, 2], chunksize=chunksize)
    assert [next(results) for _ in range(3)] == [(2, 0)] * 3
    with pytest.raises(ZeroDivisionError) as raised:
        next(results)
    assert "ZeroDivisionError" in str(raised.value.__cause__)
    assert list(results) == []


def test_map_of_what_cannot_be_pickled(executor: Any) -> None:
    results = executor.map(targets.square, [1, targets.Unpicklable(), 3])
    assert next(results) == 1
    with pytest.raises(TypeError, match="not to be pickled"):
        next(results)


def test_map_with_a_timeout(make: Kind, tmp_path: Path) -> None:
    with make() as executor:
        assert executor.submit(targets.square, 1).result(DEADLINE) == 1
        results = executor.map(targets.wait_for, [str(tmp_path)] * 2, ["first", "second"], timeout=1.5)
        (tmp_path / "first").touch()
        assert next(results) == "first"
        with pytest.raises(concurrent.futures.TimeoutError):
            next(results)
        (tmp_path / "second").touch()


def test_map_keeps_no_results(executor: Any) -> None:
    for array in executor.map(np.ones, [10_000] * 20):
        seen = weakref.ref(array)
        del array
        gc.collect()
        assert seen() is None


def test_a_map_that_is_not_iterated_runs(make: Kind, tmp_path: Path) -> None:
    with make() as executor:
        executor.map(targets.wait_for, [str(tmp_path)] * 4, [str(tmp_path)] * 4, map(str, range(4)))
    assert sorted(each.name for each in tmp_path.iterdir()) == ["0", "1", "2", "3"]


def test_an_iterator_that_ends_early_cancels_the_rest(make: Kind, tmp_path: Path) -> None:
    with make(1) as executor:
        names = ["go", *(["go"] * 200)]
        results = executor.map(
            targets.wait_for, [str(tmp_path)] * 201, names, (f"begun{i}" for i in range(201))
        )
        (tmp_path / "go").touch()
        assert next(results) == "go"
        blocked = executor.submit(targets.wait_for, str(tmp_path), "end", "last")
        results.close()
        (tmp_path / "end").touch()
        assert blocked.result(DEADLINE) == "end"


def test_map_with_a_buffer(ctx: Any) -> None:
    taken: list[int] = []

    def items() -> Any:
        for i in range(40):
            taken.append(i)
            yield i

    with forklift.ProcessPoolExecutor(2, mp_context=ctx) as executor:
        results = executor.map(targets.square, items(), buffersize=3)
        assert taken == [0, 1, 2]
        assert next(results) == 0
        assert taken == [0, 1, 2, 3]
        assert list(results) == [i * i for i in range(1, 40)]
        chunks = executor.map(targets.square, range(10), chunksize=4, buffersize=1)
        assert list(chunks) == [i * i for i in range(10)]
        with pytest.raises(ValueError, match="buffersize must be None or > 0"):
            executor.map(targets.square, [1], buffersize=0)
        with pytest.raises(TypeError, match="buffersize must be an integer or None"):
            executor.map(targets.square, [1], buffersize=1.5)  # type: ignore[arg-type]


def test_a_map_of_more_than_the_workers_have_room_for(ctx: Any, tmp_path: Path) -> None:
    """What is more than 4096 tasks follows from a thread, in order, and calls wait behind it."""
    with forklift.ProcessPoolExecutor(1, mp_context=ctx) as executor:
        first = executor.submit(targets.wait_for, str(tmp_path), "go", "begun")
        results = executor.map(targets.square, range(9_000))
        future = executor.submit(targets.square, 3)
        late = executor.submit(targets.square, 4)
        assert late.cancel()
        (tmp_path / "go").touch()
        assert first.result(support.DEADLINE) == "go"
        assert list(results) == [i * i for i in range(9_000)]
        assert future.result(support.DEADLINE) == 9
        assert late.cancelled()


def test_a_shutdown_cancels_maps(ctx: Any, tmp_path: Path) -> None:
    executor = forklift.ProcessPoolExecutor(1, mp_context=ctx)
    first = executor.submit(targets.wait_for, str(tmp_path), "go", "begun")
    support.until((tmp_path / "begun").exists, "the call to begin")
    results = executor.map(targets.square, range(9_000))
    executor.shutdown(wait=False, cancel_futures=True)
    (tmp_path / "go").touch()
    assert first.result(support.DEADLINE) == "go"
    with pytest.raises(concurrent.futures.CancelledError):
        list(results)

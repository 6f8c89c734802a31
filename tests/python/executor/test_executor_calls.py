"""Calls and futures of ProcessPoolExecutor, beside the standard library's: each test here runs on both."""

from __future__ import annotations

import asyncio
import concurrent.futures
import pickle
import threading
import weakref
from pathlib import Path
from typing import Any

import executor_targets as targets
import numpy as np
import pytest
import support
from executor_targets import Kind

DEADLINE = support.DEADLINE


def test_results_and_arguments(executor: Any) -> None:
    assert executor.submit(targets.square, 7).result(DEADLINE) == 49
    future = executor.submit(targets.both, 1, self=2, fn=3)
    assert future.result(DEADLINE) == ((1,), {"self": 2, "fn": 3})
    with pytest.raises(TypeError):
        executor.submit(fn=targets.square, x=1)
    array = np.arange(200_000.0)
    assert np.array_equal(executor.submit(targets.square, array).result(DEADLINE), array * array)
    assert isinstance(future, concurrent.futures.Future)
    assert future.done()
    assert not future.running()
    assert not future.cancelled()
    assert not future.cancel()
    assert future.exception() is None
    assert "finished returned tuple" in repr(future)


def test_many_futures(executor: Any) -> None:
    futures = [executor.submit(targets.square, i) for i in range(6_000)]
    assert [each.result(DEADLINE) for each in futures] == [i * i for i in range(6_000)]


def test_what_a_call_raises(executor: Any) -> None:
    future = executor.submit(targets.fail, "bread")
    with pytest.raises(ValueError, match="no bread"):
        future.result(DEADLINE)
    error = future.exception()
    assert type(error.__cause__) is concurrent.futures.process._RemoteTraceback  # type: ignore[attr-defined]
    assert 'raise ValueError(f"no {x}")' in str(error.__cause__)
    with pytest.raises(SystemExit) as left:
        executor.submit(targets.leave, 3).result(DEADLINE)
    assert left.value.code == 3
    assert executor.submit(targets.square, 2).result(DEADLINE) == 4


def test_what_cannot_be_pickled(executor: Any) -> None:
    for future in (
        executor.submit(targets.square, targets.Unpicklable()),
        executor.submit(targets.unpicklable),
    ):
        error = future.exception(DEADLINE)
        assert type(error) is TypeError
        assert str(error) == "not to be pickled"
        assert "not to be pickled" in str(error.__cause__)
    assert executor.submit(targets.square, 2).result(DEADLINE) == 4


def test_cancel_and_running(make: Kind, tmp_path: Path) -> None:
    with make(1) as executor:
        first = executor.submit(targets.wait_for, str(tmp_path), "go", "begun")
        others = [executor.submit(targets.wait_for, str(tmp_path), "go", f"other{i}") for i in range(20)]
        support.until((tmp_path / "begun").exists, "the first call to begin")
        support.until(first.running, "the future to say so")
        assert not first.cancel()
        assert not first.cancelled()
        assert not first.done()
        called: list[Any] = []
        others[-1].add_done_callback(called.append)
        assert others[-1].cancel()
        assert others[-1].cancel()
        assert others[-1].cancelled()
        assert others[-1].done()
        assert called == [others[-1]]
        with pytest.raises(concurrent.futures.CancelledError):
            others[-1].result(DEADLINE)
        with pytest.raises(concurrent.futures.CancelledError):
            others[-1].exception(DEADLINE)
        (tmp_path / "go").touch()
        # The standard library's tells those who wait when it comes to the call.
        done, left = concurrent.futures.wait(others[-1:], DEADLINE)
        assert done == set(others[-1:])
        assert not left
        assert {each.result(DEADLINE) for each in [first, *others[:-1]]} == {"go"}
    assert not (tmp_path / "other19").exists()


def test_callbacks(executor: Any) -> None:
    called: list[Any] = []
    futures = [executor.submit(targets.square, i) for i in range(3)]
    for future in futures:
        future.add_done_callback(called.append)
    concurrent.futures.wait(futures, DEADLINE)
    support.until(lambda: len(called) == 3, "the callbacks")
    futures[0].add_done_callback(called.append)
    assert called[3] is futures[0]
    assert set(called) == set(futures)


def test_a_callback_that_fails_is_logged(executor: Any, caplog: Any, tmp_path: Path) -> None:
    future = executor.submit(targets.wait_for, str(tmp_path), "go")
    future.add_done_callback(lambda _: targets.fail("callback"))
    (tmp_path / "go").touch()
    assert future.result(DEADLINE) == "go"
    support.until(lambda: "exception calling callback" in caplog.text, "the log record")
    assert executor.submit(targets.square, 3).result(DEADLINE) == 9
    caplog.clear()  # the record's traceback


def test_a_callback_submits_more(executor: Any) -> None:
    later: list[Any] = []
    future = executor.submit(targets.square, 2)
    future.add_done_callback(lambda done: later.append(executor.submit(targets.square, done.result())))
    assert support.until(lambda: later, "the callback")[0].result(DEADLINE) == 16


def test_wait_and_as_completed(executor: Any, tmp_path: Path) -> None:
    slow = executor.submit(targets.wait_for, str(tmp_path), "go")
    quick = [executor.submit(targets.square, i) for i in range(10)]
    done, left = concurrent.futures.wait([slow, *quick], DEADLINE, concurrent.futures.FIRST_COMPLETED)
    assert done
    assert slow in left
    done, left = concurrent.futures.wait([slow, *quick], 0.05)
    assert slow in left
    with pytest.raises(concurrent.futures.TimeoutError):
        slow.result(0.01)
    (tmp_path / "go").touch()
    seen = list(concurrent.futures.as_completed([slow, *quick], DEADLINE))
    assert set(seen) == {slow, *quick}
    failing = executor.submit(targets.fail, 1)
    done, _ = concurrent.futures.wait([failing], DEADLINE, concurrent.futures.FIRST_EXCEPTION)
    assert done == {failing}


def test_asyncio(make: Kind) -> None:
    async def program(executor: Any) -> Any:
        loop = asyncio.get_running_loop()
        squares = await asyncio.gather(
            *(loop.run_in_executor(executor, targets.square, i) for i in range(50))
        )
        assert squares == [i * i for i in range(50)]
        with pytest.raises(ValueError, match="no tea"):
            await loop.run_in_executor(executor, targets.fail, "tea")
        return await asyncio.wrap_future(executor.submit(targets.square, 9))

    with make() as executor:
        assert asyncio.run(program(executor)) == 81


def test_asyncio_cancels(make: Kind, tmp_path: Path) -> None:
    async def program(executor: Any) -> None:
        loop = asyncio.get_running_loop()
        first = loop.run_in_executor(executor, targets.wait_for, str(tmp_path), "go", "begun")
        rest = [
            loop.run_in_executor(executor, targets.wait_for, str(tmp_path), "go", f"rest{i}")
            for i in range(9)
        ]
        while not (tmp_path / "begun").exists():
            await asyncio.sleep(0.002)
        rest[-1].cancel()
        (tmp_path / "go").touch()
        assert await first == "go"
        assert await asyncio.gather(*rest[:-1]) == ["go"] * 8
        with pytest.raises(asyncio.CancelledError):
            await rest[-1]

    with make(1) as executor:
        asyncio.run(program(executor))
    assert not (tmp_path / "rest8").exists()


def test_wrong_arguments(make: Kind) -> None:
    for number in (0, -1):
        with pytest.raises(ValueError, match="max_workers must be greater than 0"):
            make(number)


def test_threads_submit_together(executor: Any) -> None:
    got: list[list[int]] = []

    def use() -> None:
        futures = [executor.submit(targets.square, i) for i in range(300)]
        got.append([each.result(DEADLINE) for each in futures] + list(executor.map(targets.square, range(9))))

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == [[i * i for i in range(300)] + [i * i for i in range(9)]] * 4


def test_arguments_are_not_kept(executor: Any) -> None:
    class Owner:
        def __reduce__(self) -> Any:
            return int, ()

    owner = Owner()
    seen = weakref.ref(owner)
    executor.submit(targets.square, owner)
    del owner
    support.until(lambda: seen() is None, "the argument to be given up")


def test_exceptions_pickle(executor: Any) -> None:
    error = executor.submit(targets.fail, 1).exception(DEADLINE)
    assert pickle.loads(pickle.dumps(error)).args == error.args

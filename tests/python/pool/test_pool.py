"""Pool: what is more than the standard library's tests of it ask (tests/conformance runs those)."""

from __future__ import annotations

import asyncio
import functools
import gc
import multiprocessing
import threading
import time
import warnings
import weakref
from typing import Any

import forklift.multiprocessing as mp
import numpy as np
import pool_targets as targets
import pytest
import support
from forklift.multiprocessing import pool as pools
from forklift.multiprocessing.pool import MaybeEncodingError, RemoteTraceback, ResultDecodingError


@pytest.fixture
def fork() -> Any:
    return mp.get_context("fork")


def test_calls(ctx: Any) -> None:
    with ctx.Pool(2) as pool:
        assert pool.apply(targets.add, (1,), {"y": 2}) == 3
        assert pool.map(targets.square, range(100)) == [i * i for i in range(100)]
        assert pool.starmap(targets.add, [(i, 1) for i in range(20)], 1) == list(range(1, 21))
        assert pool.map_async(targets.square, (1, 2), 1).get(support.DEADLINE) == [1, 4]
        assert pool.starmap_async(targets.add, [(1, 2)]).get(support.DEADLINE) == [3]
        assert list(pool.imap(targets.square, iter(range(50)), 7)) == [i * i for i in range(50)]
        assert sorted(pool.imap_unordered(targets.square, range(50))) == [i * i for i in range(50)]
        assert "state=RUN pool_size=2" in repr(pool)
        pool.close()
        pool.join()


def test_many_tasks_more_than_are_sent_at_once(fork: Any) -> None:
    with fork.Pool(2) as pool:
        assert pool.map(targets.same, range(20_000), chunksize=1) == list(range(20_000))
        first = pool.map_async(targets.same, range(10_000), chunksize=1)
        behind = pool.apply_async(targets.same, ("behind",))
        assert pool.apply(targets.same, ("last",)) == "last"
        assert first.get(support.DEADLINE) == list(range(10_000))
        assert behind.get(support.DEADLINE) == "behind"
        assert list(pool.imap(targets.same, range(10_000))) == list(range(10_000))


def test_arrays_beyond_what_waits_for_workers(fork: Any) -> None:
    arrays = [np.full(50_000, i) for i in range(40)]
    with fork.Pool(2) as pool:
        got = pool.map(targets.square, arrays, 1)
        later = pool.map_async(targets.square, arrays, 1).get(support.DEADLINE)
        turns = list(pool.imap(targets.square, arrays))
    for results in (got, later, turns):
        assert all((array == i * i).all() for i, array in enumerate(results))


def test_a_closed_pool_ends_what_it_was_given(ctx: Any) -> None:
    pool = ctx.Pool(2)
    results = [pool.apply_async(targets.nap, (0.02,)) for _ in range(10)]
    turns = pool.imap(targets.square, iter(range(300)))
    pool.close()
    pool.join()
    assert [result.get(0) for result in results] == [0.02] * 10
    assert list(turns) == [i * i for i in range(300)]
    with pytest.raises(ValueError, match="Pool not running"):
        pool.apply(targets.square, (1,))
    with pytest.raises(ValueError, match="Pool not running"):
        pool.imap(targets.square, [1])


def test_classes_are_the_standard_librarys(fork: Any) -> None:
    with fork.Pool(1) as pool:
        result = pool.apply_async(targets.nap, (0.3,))
        assert isinstance(result, multiprocessing.pool.AsyncResult)
        assert isinstance(pool.map_async(abs, [1]), multiprocessing.pool.MapResult)
        for std_or_ours in (multiprocessing.pool, pools):
            assert isinstance(pool.imap(abs, [1]), std_or_ours.IMapIterator)
            assert not isinstance(pool.imap(abs, [1]), std_or_ours.IMapUnorderedIterator)
            assert isinstance(pool.imap_unordered(abs, [1]), std_or_ours.IMapUnorderedIterator)
        assert isinstance(pool, multiprocessing.pool.Pool)
        assert not result.ready()
        with pytest.raises(ValueError, match="not ready"):
            result.successful()
        with pytest.raises(multiprocessing.TimeoutError):
            result.get(0.01)
        assert result._job in pool._cache
        assert result.get(support.DEADLINE) == 0.3
        assert result.ready()
        assert result.successful()
        with pytest.raises(NotImplementedError, match="cannot be passed between processes"):
            pool.__reduce__()


@pytest.mark.parametrize("size", [0, -1])
def test_a_pool_of_none(fork: Any, size: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        fork.Pool(size)


@pytest.mark.parametrize("options", [{"maxtasksperchild": 0}, {"initializer": 3}, {"finalizer": 3}])
def test_wrong_options(fork: Any, options: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        fork.Pool(1, **options)


def test_errors_bring_both_tracebacks(ctx: Any) -> None:
    with ctx.Pool(1) as pool:
        with pytest.raises(ValueError, match="no 3") as caught:
            pool.map(targets.fail, [3], 1)
        assert isinstance(caught.value.__cause__, RemoteTraceback)
        assert "the line that fails" in str(caught.value.__cause__)

        with pytest.raises(ResultDecodingError, match="Picky") as caught:
            pool.apply(targets.raise_picky)
        reason = caught.value.__cause__
        assert isinstance(reason, TypeError)
        assert "in raise_picky" in str(reason.__cause__)

        with pytest.raises(MaybeEncodingError, match="will not be pickled") as caught:
            pool.apply_async(targets.raise_unpicklable).get(support.DEADLINE)
        assert "in raise_unpicklable" in str(caught.value.__cause__)

        with pytest.raises(ResultDecodingError, match="will not be unpickled here") as caught:
            list(pool.imap(targets.make_unreadable, [1]))
        assert isinstance(caught.value.__cause__, OSError)

        with pytest.raises(MaybeEncodingError, match="lambda"):
            pool.map(targets.make_lambda, [1])
        with pytest.raises(OSError, match="will not be unpickled here") as caught:
            pool.apply(targets.same, (targets.Unreadable(),))
        assert "in refuse" in str(caught.value.__cause__)
        with pytest.raises(TypeError, match="cannot pickle"):
            pool.map(targets.same, [1, threading.Lock()], 1)
        assert pool.apply(targets.square, (3,)) == 9


def test_a_map_waits_for_all_before_it_raises(either: Any) -> None:
    with either.Pool(2) as pool:
        begin = time.monotonic()
        with pytest.raises(TypeError):
            pool.map(targets.nap, ["no time", 0.3], 1)
        assert time.monotonic() - begin > 0.25


def test_callbacks(fork: Any) -> None:
    got: list[Any] = []
    with fork.Pool(2) as pool:
        pool.apply_async(targets.square, (3,), callback=got.append).wait(support.DEADLINE)
        assert got == [9]
        failed = pool.map_async(
            targets.fail, [1], callback=got.append, error_callback=lambda e: got.append(str(e))
        )
        failed.wait(support.DEADLINE)
        assert got == [9, "no 1"]
        assert not failed.successful()


def test_a_callback_that_raises_costs_nothing_else(fork: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    reports: list[str] = []
    monkeypatch.setattr(threading, "excepthook", lambda report: reports.append(str(report.exc_value)))

    def fail(_: Any) -> None:
        raise RuntimeError("in a callback")

    got: list[int] = []
    with fork.Pool(1) as pool:
        first = pool.apply_async(targets.square, (2,), callback=fail)
        assert first.get(support.DEADLINE) == 4
        pool.apply_async(targets.square, (3,), callback=got.append).wait(support.DEADLINE)
    assert got == [9]
    assert reports == ["in a callback"]


def test_a_callback_may_use_its_pool(fork: Any) -> None:
    got: list[Any] = []
    done = threading.Event()
    with fork.Pool(1) as pool:

        def call_again(value: int) -> None:
            got.append(pool.apply(targets.square, (value,)))
            done.set()

        pool.apply_async(targets.square, (2,), callback=call_again)
        assert done.wait(support.DEADLINE)
    assert got == [16]


def test_functions_with_a_state_arrive_anew(either: Any) -> None:
    with either.Pool(1) as pool:
        assert pool.map(targets.Counter(), range(3), 1) == [1, 1, 1]
        assert pool.map(targets.Counter(), range(3), 3) == [1, 2, 3]
        assert pool.map(functools.partial(targets.add, y=5), range(3), 1) == [5, 6, 7]
        array = np.arange(3)
        assert pool.apply(functools.partial(np.shares_memory, array), (array,))


def test_lambdas_and_closures(fork: Any) -> None:
    pytest.importorskip("cloudpickle")
    factor = 7
    with fork.Pool(2) as pool:
        assert pool.map(lambda x: x * factor, range(5), 1) == [0, 7, 14, 21, 28]
        assert pool.apply(lambda: factor) == 7
        assert pool.apply_async(lambda a, b=1: a - b, (3,), {"b": 5}).get(support.DEADLINE) == -2
        assert list(pool.imap(lambda x: x + factor, iter(range(3)))) == [7, 8, 9]


def test_errors_of_iterables(either: Any) -> None:
    def items() -> Any:
        yield 1
        raise KeyError("in the iterable")

    with either.Pool(1) as pool:
        turns = pool.imap(targets.square, items())
        assert next(turns) == 1
        with pytest.raises(KeyError, match="in the iterable"):
            next(turns)
        with pytest.raises(StopIteration):
            next(turns)
        with pytest.raises(KeyError):
            pool.map(targets.square, items())


def test_an_iterable_may_wait_for_results(either: Any) -> None:
    seen = threading.Event()

    def items() -> Any:
        yield 1
        assert seen.wait(support.DEADLINE)
        yield 2

    with either.Pool(1) as pool:
        turns = pool.imap(targets.square, items())
        assert next(turns) == 1
        with pytest.raises(multiprocessing.TimeoutError):
            turns.next(timeout=0.01)
        seen.set()
        assert list(turns) == [4]


def test_callbacks_come_as_the_results_did(fork: Any) -> None:
    """Whoever takes results in (a thread of the pool's, who waits, who joins), with one worker in order."""
    for _ in range(200):  # each a chance that join() overtakes the thread that took in the last answers
        called: list[int] = []
        with fork.Pool(1) as pool:
            for i in range(50):
                pool.apply_async(targets.square, (i,), callback=called.append)
            pool.close()
            pool.join()
        assert called == [i * i for i in range(50)]


def test_lookahead_bounds_the_producer(fork: Any) -> None:
    produced: list[int] = []

    def items() -> Any:
        for i in range(20):
            produced.append(i)
            yield i

    with fork.Pool(2) as pool:
        turns = pool.imap(targets.square, items(), lookahead=3)
        assert next(turns) == 0
        support.until(lambda: len(produced) >= 4, "the producer goes on")
        time.sleep(0.1)
        # One more than may be ahead is taken from the iterable, and waits.
        assert len(produced) <= 1 + 3 + 1 + 3
        assert list(turns) == [i * i for i in range(1, 20)]
        left = pool.imap(targets.square, items(), lookahead=2)
        del left
        with pytest.raises(ValueError, match="lookahead"):
            pool.imap(targets.square, [1], lookahead=0)


def test_await(fork: Any) -> None:
    async def main(pool: Any) -> Any:
        results = await asyncio.gather(*[_of(pool.apply_async(targets.square, (i,))) for i in range(20)])
        with pytest.raises(ValueError, match="no 1"):
            await pool.apply_async(targets.fail, (1,))
        done = pool.map_async(targets.square, [1, 2])
        assert await done == [1, 4]
        assert await done == [1, 4]
        return results

    async def _of(result: Any) -> Any:
        return await result

    with fork.Pool(2) as pool:
        assert asyncio.run(main(pool)) == [i * i for i in range(20)]


def test_several_threads_share_a_result(fork: Any) -> None:
    got: list[Any] = []
    with fork.Pool(2) as pool:
        result = pool.map_async(targets.nap, [0.1] * 4, 1)
        threads = [
            threading.Thread(target=lambda: got.append(result.get(support.DEADLINE))) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert got == [[0.1] * 4] * 4
        numbers = pool.imap_unordered(targets.same, range(200))
        taken: list[int] = []
        threads = [threading.Thread(target=lambda: taken.extend(numbers)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(taken) == list(range(200))


def test_a_pool_that_is_dropped_ends(fork: Any) -> None:
    pool = fork.Pool(1)
    assert pool.apply(targets.square, (2,)) == 4
    there = weakref.ref(pool)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del pool
        gc.collect()
    assert "unclosed running multiprocessing pool" in str(caught[0].message)
    caught.clear()  # the warning refers to the pool
    assert there() is None


def test_a_result_keeps_its_pool(fork: Any) -> None:
    result = fork.Pool(1).map_async(targets.nap, [0.05, 0.05])
    gc.collect()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert result.get(support.DEADLINE) == [0.05, 0.05]
        gc.collect()
    assert "unclosed running multiprocessing pool" in str(caught[0].message)


def test_a_childs_copy_of_a_pool_is_none(fork: Any) -> None:
    with fork.Pool(1) as pool:
        process = fork.Process(target=_use, args=(pool,))
        process.start()
        process.join(support.DEADLINE)
        assert process.exitcode == 0
        assert pool.apply(targets.square, (3,)) == 9


def _use(pool: Any) -> None:
    with pytest.raises(ValueError, match="another process"):
        pool.apply(targets.square, (2,))


class Hooked(pools.Pool):
    def _setup_queues(self) -> None:
        super()._setup_queues()  # type: ignore[misc]
        self.hooked = True


class Named(pools.Pool):
    def twice(self, func: Any, items: Any) -> Any:
        return self.map(func, self.map(func, items))


def test_a_subclass_with_hooks_gets_the_standard_engine(fork: Any) -> None:
    with Hooked(2, context=fork) as pool:
        assert pool.hooked
        assert pool._core is None
        assert pool._worker_handler.is_alive()  # type: ignore[attr-defined]
        assert pool.map(targets.square, range(20), 1) == [i * i for i in range(20)]
        assert pool.apply_async(targets.square, (2,)).get(support.DEADLINE) == 4
    with Named(2, context=fork) as named:
        assert named._core is not None
        assert named.twice(targets.square, range(5)) == [i**4 for i in range(5)]

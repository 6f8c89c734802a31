"""A result that is an array which the worker received: it goes back with its memory if nobody looks at it."""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Iterator
from typing import Any

import forklift
import forklift.multiprocessing as mp
import numpy as np
import pytest

SIZE = 100_000
kept: list[Any] = []


def copied(function: Any) -> int:
    """How many bytes this process has copied into blocks by its answers so far."""
    del function
    return int(forklift.stats()["block_bytes"])


def write(array: Any) -> Any:
    array[:] = 7
    return array


def transposed(array: Any) -> Any:
    array = array.reshape(100, -1)
    array[3, 5] = 9
    return array


def keep(array: Any) -> Any:
    kept.append(array)
    return array


def keep_view(array: Any) -> Any:
    kept.append(array[10:20])
    return array


def keep_buffer(array: Any) -> Any:
    kept.append(memoryview(array))
    return array


def keep_weakly(array: Any) -> Any:
    kept.append(weakref.ref(array))
    return array


def scribble(_: Any) -> bool:
    """Write to what was kept of the array that was returned before. False: nothing was kept."""
    there = kept.pop()
    if isinstance(there, weakref.ref):
        return there() is not None
    there[:] = np.full(len(there), 99, np.uint8)
    return True


def fork_and_write(array: Any) -> Any:
    array[:] = 3
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    array[0] = 4  # into this process's own copy
    return array


@contextlib.contextmanager
def one_worker(**options: Any) -> Iterator[Any]:
    with mp.get_context("fork").Pool(1, **options) as pool:
        yield pool
        pool.close()
        pool.join()


@pytest.mark.parametrize("insights", [False, True])
def test_goes_back_without_a_copy(insights: bool) -> None:
    with one_worker(insights=insights) as pool:
        before = pool.apply(copied, (write,))
        for _ in range(3):
            got = pool.apply(write, (np.zeros(SIZE, np.uint8),))
            assert got.sum() == 7 * SIZE
            got[0] = 1  # private and writable
        assert pool.apply(copied, (write,)) == before


def test_a_reshaped_array_is_a_view_and_is_copied() -> None:
    with one_worker() as pool:
        before = pool.apply(copied, (write,))
        got = pool.apply(transposed, (np.zeros(SIZE, np.uint8),))
        assert got.shape == (100, SIZE // 100)
        assert got[3, 5] == 9
        assert got.sum() == 9
        assert pool.apply(copied, (write,)) == before + SIZE


@pytest.mark.parametrize("task", [keep, keep_view, keep_buffer])
def test_what_the_worker_keeps_is_its_own(task: Any) -> None:
    with one_worker() as pool:
        got = pool.apply(task, (np.ones(SIZE, np.uint8),))
        assert pool.apply(scribble, (None,))
        assert got.sum() == SIZE


def test_a_weak_reference_outlives_no_array() -> None:
    with one_worker() as pool:
        got = pool.apply(keep_weakly, (np.ones(SIZE, np.uint8),))
        assert not pool.apply(scribble, (None,))
        assert got.sum() == SIZE


def test_after_a_fork_the_worker_sends_what_it_sees() -> None:
    with one_worker() as pool:
        got = pool.apply(fork_and_write, (np.zeros(SIZE, np.uint8),))
        assert got[0] == 4
        assert got.sum() == 4 + 3 * (SIZE - 1)


def test_order_and_read_only_arrays() -> None:
    with one_worker() as pool:
        array = np.asfortranarray(np.arange(SIZE, dtype=np.float32).reshape(100, -1))
        got = pool.apply(keep_order, (array,))
        assert got.flags.f_contiguous
        np.testing.assert_array_equal(got, array)


def keep_order(array: Any) -> Any:
    return array


def test_in_bulk() -> None:
    with one_worker() as pool:
        arrays = [np.full(SIZE, i, np.uint8) for i in range(30)]
        for i, got in enumerate(pool.imap(keep_order, arrays)):
            assert got[0] == i
            assert (got == i).all()


def test_by_an_executor() -> None:
    with forklift.ProcessPoolExecutor(1, mp_context=mp.get_context("fork")) as executor:
        got = executor.submit(write, np.zeros(SIZE, np.uint8)).result()
        assert got.sum() == 7 * SIZE

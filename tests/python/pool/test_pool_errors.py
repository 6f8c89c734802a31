"""What errors of a pool say: which item it was, what it looked like, and why a function is not there."""

from __future__ import annotations

import signal
import sys
import traceback
from typing import Any

import forklift
import forklift.multiprocessing as mp
import numpy as np
import pool_targets as targets
import pytest
import support


@pytest.fixture
def fork() -> Any:
    return mp.get_context("fork")


CALLS = {
    "map": lambda pool, items: pool.map(targets.refuse_negative, items, 4),
    "map one by one": lambda pool, items: pool.map(targets.refuse_negative, items, 1),
    "starmap": lambda pool, items: pool.starmap(targets.refuse_negative, [(i,) for i in items]),
    "map_async": lambda pool, items: pool.map_async(targets.refuse_negative, items).get(support.DEADLINE),
    "imap": lambda pool, items: list(pool.imap(targets.refuse_negative, items, 3)),
    "imap of an iterator": lambda pool, items: list(pool.imap(targets.refuse_negative, iter(items))),
    "imap in chunks": lambda pool, items: list(pool.imap_unordered(targets.refuse_negative, iter(items), 3)),
}


@pytest.mark.parametrize("call", CALLS)
def test_which_item_a_task_was_about(fork: Any, call: str) -> None:
    items = [*range(13), -5, *range(6)]
    with fork.Pool(2) as pool:
        with pytest.raises(LookupError, match="negative") as caught:
            CALLS[call](pool, items)
    cause: Any = caught.value.__cause__
    shown = "(-5,)" if call == "starmap" else "-5"
    # Nothing is added to the exception itself.
    assert caught.value.args == ("negative",)
    assert not hasattr(caught.value, "__notes__")
    assert cause.item == shown
    assert cause.index == 13
    assert "item 13 of" in "".join(traceback.format_exception(caught.value))
    assert "refuse_negative): " + shown in str(cause)


def test_which_items_a_dead_worker_had(fork: Any) -> None:
    with fork.Pool(2) as pool:
        with pytest.raises(
            forklift.WorkerDiedError, match=r"task 7 of map\(die_at\) \(7\): its worker"
        ) as one:
            pool.map(targets.die_at, range(20), 1)
        assert (one.value.index, one.value.item, one.value.exitcode) == (7, "7", -signal.SIGKILL)
        with pytest.raises(forklift.WorkerDiedError, match=r"\(items 4 to 7: 4, 5, 6, \.\.\.\)") as several:
            pool.map_async(targets.die_at, range(20), 4).get(support.DEADLINE)
        assert (several.value.index, several.value.item) == (4, "4")
        with pytest.raises(forklift.WorkerDiedError, match=r"task 7 of imap\(die_at\):") as unknown:
            list(pool.imap(targets.die_at, iter(range(20))))
        assert (unknown.value.index, unknown.value.item) == (7, None)
        with pytest.raises(forklift.TaskTimeoutError, match=r"task 0 of map\(.*\) \(30\)") as late:
            pool.map(targets.nap, [30], timeout=0.2)
        assert (late.value.index, late.value.item) == (0, "30")


class Loud:
    def __repr__(self) -> str:
        return "x" * 10_000


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("item", "start"),
    [
        ("a" * 10_000, "'aaa"),
        (b"b" * 10_000, "b'bbb"),
        (np.zeros(10**6), "array([0., 0."),
        (list(range(10**5)), "[0, 1"),
    ],
)
def test_items_are_shown_in_a_line(fork: Any, item: Any, start: str) -> None:
    with fork.Pool(1) as pool, pytest.raises(LookupError) as caught:
        pool.map(targets.refuse_any, [item])
    cause: Any = caught.value.__cause__
    assert cause.item.startswith(start)
    assert len(cause.item) <= 120
    assert "\n" not in cause.item


@pytest.mark.parametrize(("kind", "shown"), [(Loud, "xxx"), (Broken, "<test_pool_errors.Broken object")])
def test_whatever_repr_does(kind: Any, shown: str) -> None:
    from forklift.multiprocessing._pool.label import shortened

    kind.__module__ = "test_pool_errors"
    assert shortened(kind()).startswith(("xxx", "<"))
    assert len(shortened(kind())) <= 120


def test_a_function_that_came_after_the_workers(fork: Any) -> None:
    with fork.Pool(1) as pool:
        assert pool.apply(targets.square, (2,)) == 4

        def late(x: int) -> int:
            return x

        late.__module__, late.__qualname__ = targets.__name__, "late"
        targets.late = late  # type: ignore[attr-defined]
        try:
            with pytest.raises(AttributeError, match=r"'late'.*defined before the pool is made"):
                pool.map(late, [1])
            with pytest.raises(AttributeError, match=r"'late'.*defined before the pool is made"):
                pool.apply(late, (1,))
        finally:
            del targets.late  # type: ignore[attr-defined]
        assert pool.apply(targets.square, (2,)) == 4


def test_errors_are_forklifts() -> None:
    from forklift.multiprocessing import pool

    for name in ("WorkerDiedError", "TaskTimeoutError", "PoolStoppedError", "ResultDecodingError"):
        assert getattr(forklift, name) is getattr(pool, name)
        assert name in forklift.__all__
    assert "forklift.multiprocessing.pool" in sys.modules

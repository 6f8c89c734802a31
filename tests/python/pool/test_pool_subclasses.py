"""Pools of a program's own class: what of theirs is called, the standard library being the control."""

from __future__ import annotations

import importlib
from typing import Any
from unittest import mock

import forklift.multiprocessing as mp
import pool_targets as targets
import pytest
import support
from forklift.multiprocessing import pool as pools

PUBLIC = "apply apply_async map map_async starmap starmap_async imap imap_unordered close terminate join"


def follow(base: Any) -> Any:
    """A class whose public methods tell that they were called."""

    def telling(name: str) -> Any:
        def method(self: Any, *args: Any, **kwds: Any) -> Any:
            self.called.append(name)
            return getattr(base, name)(self, *args, **kwds)

        return method

    return type("Followed", (base,), {"called": [], **{name: telling(name) for name in PUBLIC.split()}})


def test_which_methods_call_which(either: Any) -> None:
    kind = follow(importlib.import_module(either.Process.__module__.replace(".context", ".pool")).Pool)
    with kind(1, context=either) as pool:
        assert getattr(pool, "_core", None) is not None or either.Process.__module__.startswith("multi")
        assert pool.apply(targets.add, (1,), {"y": 2}) == 3
        assert pool.map(targets.square, [1, 2]) == [1, 4]
        assert pool.starmap(targets.add, [(1, 2)]) == [3]
        assert pool.map_async(targets.square, [1, 2]).get(support.DEADLINE) == [1, 4]
        assert pool.starmap_async(targets.add, [(1, 2)]).get(support.DEADLINE) == [3]
        assert list(pool.imap(targets.square, [1])) == list(pool.imap_unordered(targets.square, [1])) == [1]
    pool.join()
    assert " ".join(kind.called) == (
        "apply apply_async map starmap map_async starmap_async imap imap_unordered terminate join"
    )


class Loud(pools.Pool):
    """The recipe that logs what tasks raise: apply() has to come by."""

    def apply_async(self, func: Any, args: Any = (), kwds: Any = None, *callbacks: Any) -> Any:  # type: ignore[override]
        return super().apply_async(targets.add, (func(*args, **kwds), 100), {}, *callbacks)


def test_an_apply_async_of_ones_own() -> None:
    fork: Any = mp.get_context("fork")
    with Loud(1, context=fork, timeout=30) as pool:
        assert pool._core is not None
        assert pool.apply(targets.square, (3,)) == 109
        # Options that it does not know are its own affair, if they are given.
        with pytest.raises(TypeError, match="retries"):
            pool.apply(targets.square, (3,), retries=1)


def test_an_apply_async_in_the_place_of_a_pools(either: Any) -> None:
    with either.Pool(1) as pool:
        with mock.patch.object(pool, "apply_async", wraps=pool.apply_async) as watched:
            assert pool.apply(targets.square, (3,)) == 9
            watched.assert_called_once_with(targets.square, (3,), {})
            # It refers to the pool.
            watched.reset_mock(return_value=True)
        assert pool.apply(targets.square, (3,)) == 9
        del watched

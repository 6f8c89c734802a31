"""Pools: the standard library's engine over our queues."""

from __future__ import annotations

from multiprocessing import pool as _std
from multiprocessing import queues as _std_queues
from multiprocessing.pool import (
    CLOSE,
    INIT,
    RUN,
    TERMINATE,
    ApplyResult,
    AsyncResult,
    IMapIterator,
    IMapUnorderedIterator,
    MapResult,
    ThreadPool,
)
from typing import Any

from forklift.multiprocessing import context as _context

__all__ = [
    "CLOSE",
    "INIT",
    "RUN",
    "TERMINATE",
    "ApplyResult",
    "AsyncResult",
    "ExceptionWithTraceback",
    "IMapIterator",
    "IMapUnorderedIterator",
    "MapResult",
    "MaybeEncodingError",
    "Pool",
    "RemoteTraceback",
    "ThreadPool",
    "mapstar",
    "starmapstar",
    "worker",
]

# Saved, since forklift.install() puts ours in its place.
_Standard: Any = _std.Pool
_standard_queue: Any = _std_queues.SimpleQueue
# The engine's parts, which the standard library's type stubs do not name.
_engine: Any = _std
ExceptionWithTraceback = _engine.ExceptionWithTraceback
MaybeEncodingError = _engine.MaybeEncodingError
RemoteTraceback = _engine.RemoteTraceback
mapstar = _engine.mapstar
starmapstar = _engine.starmapstar
worker = _engine.worker


class Pool(_std.Pool):
    """A pool of worker processes; tasks and results travel through shared memory."""

    def __init__(
        self,
        processes: int | None = None,
        initializer: Any = None,
        initargs: Any = (),
        maxtasksperchild: int | None = None,
        context: Any = None,
    ) -> None:
        pool: Any = self
        if not isinstance(pool, Pool):
            # After forklift.install() the standard library's ThreadPool comes here for its base.
            _Standard.__init__(self, processes, initializer, initargs, maxtasksperchild, context)
            return
        if context is None:
            context = _context._default_context.get_context()
        _Standard.__init__(self, processes, initializer, initargs, maxtasksperchild, context)

    # The notifier is waited on together with the workers' sentinels, which needs a real pipe, and only ever
    # carries None: it stays the standard library's.
    @property
    def _change_notifier(self) -> Any:
        return self.__dict__["_change_notifier"]

    @_change_notifier.setter
    def _change_notifier(self, _ours: Any) -> None:
        self.__dict__["_change_notifier"] = _standard_queue(ctx=self._ctx)  # type: ignore[attr-defined]

    def _get_sentinels(self) -> list[Any]:
        # The standard library also wakes its worker handler for every result, for which it has no use.
        return [self._change_notifier._reader]

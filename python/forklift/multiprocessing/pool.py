"""Pools of worker processes: the standard library's ``Pool`` on Forklift's engine.

    with Pool(4) as pool:
        pool.map(square, range(1000), progress=True)
        pool.apply(render, (scene,), timeout=60, retries=1)

Options that the standard library does not have are keywords; docs/semantics.md describes them. A task whose
worker dies fails with ``WorkerDiedError``.

A subclass that overrides a private part of the standard library's pool (as joblib's and torch's do) gets the
standard library's engine with Forklift's queues.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Iterable, Sequence
from multiprocessing import context as _std_context
from multiprocessing import pool as _std
from multiprocessing import queues as _std_queues
from multiprocessing import util as _std_util
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

from forklift import _core
from forklift.errors import PoolStoppedError, WorkerDiedError
from forklift.multiprocessing._channels.subclasses import is_private, overridden
from forklift.multiprocessing._pool import options
from forklift.multiprocessing._pool.calls import Calls
from forklift.multiprocessing._pool.failures import ResultDecodingError, TaskTimeoutError
from forklift.multiprocessing._pool.flow import Feeder
from forklift.multiprocessing._pool.label import name_of_pool
from forklift.multiprocessing._pool.results import CallbackThread
from forklift.multiprocessing._pool.workers import Plan, WorkerFactory, worker_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from forklift.multiprocessing._pool.insights import PoolInsights

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
    "PoolStoppedError",
    "RemoteTraceback",
    "ResultDecodingError",
    "TaskTimeoutError",
    "ThreadPool",
    "WorkerDiedError",
    "clean_worker",
    "mapstar",
    "starmapstar",
    "worker",
    "worker_id",
]

# Saved, since forklift.install() replaces it.
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


def clean_worker(*args: Any, **kwargs: Any) -> None:
    """The standard library's worker, and a garbage collection at its end: a name of torch's, unused here."""
    import gc

    _std.worker(*args, **kwargs)  # type: ignore[attr-defined]
    gc.collect()


def _changes_the_engine(kind: type) -> bool:
    """Tells whether a subclass overrides a part that only the standard library's engine has."""
    return any(
        (is_private(name) or name == "Process") and hasattr(_Standard, name) for name in overridden(kind)
    )


class Pool(Calls, _std.Pool):  # type: ignore[misc]
    """A pool of worker processes; tasks and results travel through shared memory.

    By keyword: ``timeout`` (seconds that a task may run before its worker is killed) and ``retries`` (how
    often a task runs again after its worker died) are the defaults of each call. ``finalizer`` is called in a
    worker that exits in good order; ``warm_spare`` keeps one more worker ready; ``max_memory`` (bytes)
    replaces workers that have grown by more since they began; ``cpus`` pins worker i to cpus[i % len(cpus)];
    ``nested`` lets workers have children; ``log`` sends the workers' log records to this process; with
    ``insights`` the workers record where their time goes, for ``insights()``.
    """

    _state = INIT  # for __del__, which reads it even if __init__ has failed

    def __init__(
        self,
        processes: int | None = None,
        initializer: Callable[..., object] | None = None,
        initargs: Iterable[Any] = (),
        maxtasksperchild: int | None = None,
        context: Any = None,
        *,
        finalizer: Callable[[], object] | None = None,
        timeout: float | None = None,
        retries: int = 0,
        warm_spare: bool = False,
        max_memory: int | None = None,
        cpus: Sequence[int | Sequence[int]] | None = None,
        nested: bool = False,
        log: bool = False,
        insights: bool = False,
    ) -> None:
        pool: Any = self
        if not isinstance(pool, Pool):
            # After forklift.install() the standard library's ThreadPool calls this as the method of its base.
            _Standard.__init__(self, processes, initializer, initargs, maxtasksperchild, context)
            return
        if context is None:
            from forklift.multiprocessing.context import _default_context

            context = _default_context.get_context()
        if _changes_the_engine(type(self)) or not isinstance(context, _std_context.BaseContext):
            _Standard.__init__(self, processes, initializer, initargs, maxtasksperchild, context)
            return
        self._pool: list[Any] = []
        self._state = INIT
        self._ctx = context
        size = options.processes_of(processes)
        most_tasks = options.tasks_of(maxtasksperchild)
        if initializer is not None and not callable(initializer):
            raise TypeError("initializer must be a callable")
        if finalizer is not None and not callable(finalizer):
            raise TypeError("finalizer must be a callable")
        self._defaults = (
            0.0 if timeout is None else options.seconds_of(timeout),
            options.retries_of(retries),
        )
        most_memory = options.bytes_of(max_memory)
        chosen = options.cpus_of(cpus)
        self._processes = size
        self._maxtasksperchild = maxtasksperchild
        self._initializer = initializer
        self._initargs = initargs
        self._log: Any = None
        if log:
            from forklift.multiprocessing._pool.log_records import Log  # imports logging

            self._log = Log(context)
        plan = Plan(
            initializer,
            initargs,
            finalizer,
            most_tasks,
            most_memory,
            chosen,
            nested,
            self._log.plan if self._log else None,
            name_of_pool(type(self).__name__),
        )
        factory = WorkerFactory(type(self).Process, context, plan, self._pool)
        self._core = _core.PoolCore(
            factory, size, 1 if warm_spare else 0, plan.most_tasks, plan.most_memory, insights=bool(insights)
        )
        self._inqueue, self._outqueue = factory.queues
        self._quick_put, self._quick_get = self._inqueue.put, self._outqueue.get
        self._begin()

    def _begin(self) -> None:
        """Begin to take calls: the pool's core is made."""
        self._feeder = self._taskqueue = Feeder(self._core)
        self._callbacks = CallbackThread(self._core)
        self._running: weakref.WeakSet[Any] = weakref.WeakSet()
        self._terminate = _std_util.Finalize(
            self, _end, args=(self._core, self._feeder, self._callbacks, self._log), exitpriority=15
        )
        self._state = RUN

    # --- the standard library's private names

    # The notifier stays a queue of the standard library: it is waited on together with the workers'
    # sentinels, which needs a real pipe, and it carries nothing but None.
    @property
    def _change_notifier(self) -> Any:
        return self.__dict__["_change_notifier"]

    @_change_notifier.setter
    def _change_notifier(self, _ours: Any) -> None:
        self.__dict__["_change_notifier"] = _standard_queue(ctx=self._ctx)

    def _get_sentinels(self) -> list[Any]:
        # The standard library also wakes its worker handler for each result, for which that has no use.
        return [self._change_notifier._reader]

    def _repopulate_pool(self) -> None:
        """Do nothing if the pool has Forklift's engine, which replaces workers by itself."""
        if self._core is None:
            _Standard._repopulate_pool(self)

    @property
    def _cache(self) -> Any:
        """The results that are not ready yet, by their numbers."""
        if self._core is None:
            return self.__dict__["_cache"]
        return {result._job: result for result in list(self._running) if not result.ready()}

    @_cache.setter
    def _cache(self, cache: Any) -> None:
        self.__dict__["_cache"] = cache

    def __del__(self, _warn: Any = warnings.warn, _run: str = RUN) -> None:
        if self._core is None:
            _Standard.__del__(self)
        elif self._state == _run:
            _warn(f"unclosed running multiprocessing pool {self!r}", ResourceWarning, source=self)

    def _check_running(self) -> None:
        if self._state != RUN:
            raise ValueError("Pool not running")

    def insights(self) -> PoolInsights:
        """Where the workers' time went since the pool was made, and what to change.

        ``print(pool.insights())`` for people. At any time, also after ``close`` and ``terminate``.
        ValueError if the pool was made without ``insights=True``, or has the standard library's engine.
        """
        from forklift.multiprocessing._pool.insights import insights_of  # imports dataclasses

        return insights_of(self._core, self._ctx.get_start_method(allow_none=False))

    # --- the end

    def close(self) -> None:
        """Accept no more tasks. Workers exit when all tasks have ended."""
        if self._core is None:
            _Standard.close(self)
            return
        _std_util.debug("closing pool")
        if self._state == RUN:
            self._state = CLOSE
            self._feeder.close()

    def terminate(self) -> None:
        """End the workers at once; tasks that have not ended fail with PoolStoppedError."""
        if self._core is None:
            _Standard.terminate(self)
            return
        _std_util.debug("terminating pool")
        self._state = TERMINATE
        self._terminate()

    def join(self) -> None:
        """Wait for the workers to exit. Only after close() or terminate(); otherwise ValueError."""
        if self._core is None:
            _Standard.join(self)
            return
        _std_util.debug("joining pool")
        if self._state == RUN:
            raise ValueError("Pool is still running")
        elif self._state not in (CLOSE, TERMINATE):
            raise ValueError("In unknown state")
        if self._state == CLOSE:
            self._feeder.wait()
            self._core.close()  # the feeder's thread calls it after the last task, perhaps not yet
            self._core.join(None)
        self._terminate()


def _end(core: Any, feeder: Any, callbacks: Any, log: Any) -> None:
    """End a pool. Called once: by terminate, join, the garbage collector or at the interpreter's end."""
    feeder.stop()
    core.terminate()
    core.join(None)
    callbacks.end()
    if log is not None:
        log.close()


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        return getattr(_std, name)

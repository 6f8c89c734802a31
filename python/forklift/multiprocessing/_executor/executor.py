"""``ProcessPoolExecutor``, as ``concurrent.futures`` has it.

A subclass that overrides a private part of the standard library's executor, and one that gets a context of
another library, has the standard library's engine with Forklift's queues.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import process as _std
from multiprocessing import context as _std_context

from forklift.multiprocessing._channels.subclasses import is_private, overridden
from forklift.multiprocessing._executor.future import Future
from forklift.multiprocessing.context import _default_context

TYPE_CHECKING = False
if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor as _Base
    from typing import Any, Literal, TypeVar

    from forklift.multiprocessing._executor.calls import Calls
    from forklift.multiprocessing._pool.insights import PoolInsights

    _T = TypeVar("_T")
else:
    _Base = vars(_std)["ProcessPoolExecutor"]  # not its attribute, which forklift.install() replaces
    Any = object

__all__ = ["ProcessPoolExecutor"]

_Standard: Any = _Base
_engine: Any = _std  # with the private names that the standard library's type stubs do not have
# How often a call runs again after its worker died, with on_death="retry".
_RETRIES = 3
_ON_DEATH = ("break", "retry", "fail-task")


class _CallQueue:
    """Stands for the standard library's queue of calls, which programs close after a shutdown."""

    def close(self) -> None: ...
    def join_thread(self) -> None: ...


class ProcessPoolExecutor(_Base):
    """``concurrent.futures.ProcessPoolExecutor`` whose calls and results travel through shared memory.

    max_workers          how many workers there are at most; None: one for each processor
    mp_context           the context that starts them; None: the default one, of ``forklift.multiprocessing``
    initializer          called with ``initargs`` in each worker when it begins; its failure breaks the pool
    max_tasks_per_child  after so many calls a worker is replaced; not with the start method fork
    on_death             what the death of a worker does. "break": all calls that have not ended fail with
                         ``BrokenProcessPool``, as in the standard library. "fail-task": its own call fails
                         with ``forklift.WorkerDiedError``, and a new worker takes its place. "retry": its own
                         call runs again, three times at most, and then fails so; calls must bear to run twice
    insights             ``insights()`` says where the workers' time goes, and names the slowest calls

    A result that cannot be unpickled breaks the pool, too, in the mode "break"; in the others it fails with
    ``forklift.ResultDecodingError``. Methods may be called from any thread. A forked child cannot use its
    parent's executor: ``submit`` raises ValueError there.
    """

    def __init__(
        self,
        max_workers: int | None = None,
        mp_context: Any = None,
        initializer: Callable[..., object] | None = None,
        initargs: tuple[Any, ...] = (),
        *,
        max_tasks_per_child: int | None = None,
        on_death: Literal["break", "retry", "fail-task"] = "break",
        insights: bool = False,
    ) -> None:
        if on_death not in _ON_DEATH:
            raise ValueError(f"on_death must be one of {', '.join(map(repr, _ON_DEATH))}, not {on_death!r}")
        self._calls: Calls | None = None
        self._was_broken: str | bool = False  # when it was shut down
        self._last_insights: PoolInsights | None = None  # likewise
        self._own = not _changes_the_engine(type(self)) and (
            mp_context is None or isinstance(mp_context, _std_context.BaseContext)
        )
        if not self._own:
            if on_death != "break":
                raise ValueError(
                    f"on_death={on_death!r} needs a context of multiprocessing and no private overrides"
                )
            if insights:
                raise ValueError("insights=True needs a context of multiprocessing and no private overrides")
            more = {} if max_tasks_per_child is None else {"max_tasks_per_child": max_tasks_per_child}
            _Standard.__init__(self, max_workers, mp_context, initializer, initargs, **more)
            return
        _engine._check_system_limits()
        if max_workers is None:
            max_workers = getattr(os, "process_cpu_count", os.cpu_count)() or 1
        elif max_workers <= 0:
            raise ValueError("max_workers must be greater than 0")
        if mp_context is None:
            mp_context = _default_context.get_context("spawn" if max_tasks_per_child is not None else None)
        if initializer is not None and not callable(initializer):
            raise TypeError("initializer must be a callable")
        forks = mp_context.get_start_method(allow_none=False) == "fork"
        if max_tasks_per_child is not None:
            if not isinstance(max_tasks_per_child, int):
                raise TypeError("max_tasks_per_child must be an integer")
            elif max_tasks_per_child <= 0:
                raise ValueError("max_tasks_per_child must be >= 1")
            if forks:
                raise ValueError(
                    "max_tasks_per_child is incompatible with the 'fork' multiprocessing start method;"
                    " supply a different mp_context."
                )
        self._max_workers = max_workers
        self._mp_context = mp_context
        self._initializer: Any = initializer
        self._initargs = initargs
        self._max_tasks_per_child = max_tasks_per_child
        self._safe_to_dynamically_spawn_children = not forks
        self._retries = _RETRIES if on_death == "retry" else 0
        self._breaks = on_death == "break"
        self._wants_insights = bool(insights)
        self._executor_manager_thread: Any = None  # a threading.Thread once there are calls
        self._call_queue: Any = _CallQueue()
        self._shutdown_thread = False
        self._shutdown_lock = threading.Lock()

    def _begin(self) -> Calls:
        """Start the first worker, or with fork all of them, and the manager thread. With the lock held."""
        # Late imports: a main module that only names this class is imported by each fresh interpreter.
        from forklift.multiprocessing._executor.calls import Calls
        from forklift.multiprocessing._executor.workers import Plan
        from forklift.multiprocessing._pool.label import name_of_pool

        name = name_of_pool("ProcessPoolExecutor")
        plan = Plan(self._initializer, self._initargs, self._max_tasks_per_child or 0, self._breaks, name)
        first = 1 if self._safe_to_dynamically_spawn_children else self._max_workers
        context = _ours(self._mp_context)
        calls = Calls(
            self._shutdown_lock,
            context,
            plan,
            self._max_workers,
            first,
            self._retries,
            self._wants_insights,
        )
        self._executor_manager_thread = calls.manage(self)
        self._calls = calls
        return calls

    def _admit(self) -> Calls:
        """The executor's calls, if it takes more of them. With the lock held."""
        calls = self._calls
        broken = self._was_broken if calls is None else calls.broken
        if broken:
            raise _std.BrokenProcessPool(broken)
        if self._shutdown_thread:
            raise RuntimeError("cannot schedule new futures after shutdown")
        if _engine._global_shutdown:
            raise RuntimeError("cannot schedule new futures after interpreter shutdown")
        return self._begin() if calls is None else calls

    def submit(self, fn: Callable[..., _T], /, *args: Any, **kwargs: Any) -> Future[_T]:
        """Call fn(*args, **kwargs) in a worker. Returns its future at once.

        RuntimeError after ``shutdown``; BrokenProcessPool when the pool is broken.
        """
        if not self._own:
            returned: Future[_T] = _Standard.submit(self, fn, *args, **kwargs)
            return returned
        future: Future[_T] = Future()
        with self._shutdown_lock:
            calls = self._admit()
            calls.submit(future, fn, args, kwargs)
            if calls.broken:
                raise _std.BrokenProcessPool(calls.broken)
        return future

    def map(
        self,
        fn: Callable[..., _T],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
        buffersize: int | None = None,
    ) -> Iterator[_T]:
        """An iterator over the results of fn, applied to the items of the iterables, in their order.

        All calls are sent at once, `chunksize` items in a message. With ``buffersize``, only so many messages
        are sent ahead of the iterator. TimeoutError if the results have not all come ``timeout`` seconds
        after the call of ``map``. When the iterator ends early, the calls that have not begun are cancelled.
        """
        if chunksize < 1:
            raise ValueError("chunksize must be >= 1.")
        if buffersize is not None:
            if not isinstance(buffersize, int):
                raise TypeError("buffersize must be an integer or None")
            if buffersize < 1:
                raise ValueError("buffersize must be None or > 0")
        deadline = None if timeout is None else timeout + time.monotonic()
        if buffersize is not None:
            return _buffered(self, fn, iterables, deadline, chunksize, buffersize)
        if not self._own or type(self).submit is not ProcessPoolExecutor.submit:
            results: Iterator[_T] = _Standard.map(self, fn, *iterables, timeout=timeout, chunksize=chunksize)
            return results
        starred = len(iterables) != 1
        items: list[Any] = list(zip(*iterables, strict=False)) if starred else list(iterables[0])
        if not items:
            return iter(())
        with self._shutdown_lock:
            mapping = self._admit().map(fn, items, starred, chunksize)
        return mapping.results(deadline)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no more calls; with ``wait``, wait until all have ended and the workers are gone.

        ``cancel_futures``: cancel the calls that no worker has begun.
        """
        if not self._own:
            _Standard.shutdown(self, wait, cancel_futures=cancel_futures)
            return
        with self._shutdown_lock:
            self._shutdown_thread = True
            calls, thread = self._calls, self._executor_manager_thread
        if calls is not None:
            if cancel_futures:
                calls.cancel()
            calls.shut_down()
            if thread is not None and wait:
                thread.join()
            self._was_broken = calls.broken
            if self._wants_insights:
                self._last_insights = self._insights_of(calls)
        # What has descriptors does not live as long as this object.
        self._calls = None
        self._executor_manager_thread = None
        self._call_queue = None

    def insights(self) -> PoolInsights:
        """Where the workers' time went since the first call, and what to change; with ``insights=True``.

        After ``shutdown`` what they had done then. ValueError without ``insights=True``, and before any call.
        """
        with self._shutdown_lock:
            calls, last = self._calls, self._last_insights
        if calls is None and last is not None:
            return last
        return self._insights_of(calls)

    def _insights_of(self, calls: Calls | None) -> PoolInsights:
        from forklift.multiprocessing._pool.insights import insights_of  # imports dataclasses

        if calls is None:
            raise ValueError("there are no insights: no call was made, or the executor has no insights=True")
        context: Any = self._mp_context
        return insights_of(calls.core, context.get_start_method(allow_none=False))

    def terminate_workers(self) -> None:
        """Send SIGTERM to all workers, cancel what has not begun, and shut the executor down at once."""
        self._end_workers("terminate")

    def kill_workers(self) -> None:
        """As terminate_workers(), by SIGKILL."""
        self._end_workers("kill")

    def _end_workers(self, how: str) -> None:
        processes = list((self._processes or {}).values())
        calls = self._calls
        self.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            try:
                if process.is_alive():
                    getattr(process, how)()
            except (ProcessLookupError, ValueError):
                pass  # it has ended
        if calls is not None:
            calls.core.terminate()

    # --- the standard library's private names, which programs read

    @property
    def _processes(self) -> Any:
        """The workers by their pids; None after shutdown()."""
        if not self._own:
            return self.__dict__["_processes"]
        calls = self._calls
        if calls is None:
            return None if self._shutdown_thread else {}
        calls.core.wait_started()
        return calls.factory.processes

    @_processes.setter
    def _processes(self, processes: Any) -> None:
        self.__dict__["_processes"] = processes

    @property
    def _broken(self) -> Any:
        """Why the pool is broken; False if it is not."""
        if not self._own:
            return self.__dict__["_broken"]
        calls = self._calls
        return self._was_broken if calls is None else calls.check()

    @_broken.setter
    def _broken(self, broken: Any) -> None:
        self.__dict__["_broken"] = broken


def _changes_the_engine(kind: type) -> bool:
    """Tells whether a subclass overrides a part that only the standard library's engine has."""
    return any(is_private(name) and hasattr(_Standard, name) for name in overridden(kind))


def _ours(context: Any) -> Any:
    """Forklift's context for one of the standard library's own ones, whose processes may not be patched."""
    if type(context).__module__ == "multiprocessing.context":
        return _default_context.get_context(context.get_start_method())
    return context


def _buffered(
    executor: Any,
    fn: Any,
    iterables: tuple[Iterable[Any], ...],
    deadline: float | None,
    chunksize: int,
    buffersize: int,
) -> Iterator[Any]:
    """The results of ``map`` with at most `buffersize` messages ahead of the iterator."""
    items = zip(*iterables, strict=False)
    chunks = iter(lambda: tuple(itertools.islice(items, chunksize)), ())
    futures = deque(
        executor.submit(_engine._process_chunk, fn, chunk) for chunk in itertools.islice(chunks, buffersize)
    )
    return _results_of(weakref.ref(executor), fn, chunks, futures, deadline)


def _results_of(
    executor: Callable[[], Any], fn: Any, chunks: Iterator[Any], futures: deque[Any], deadline: float | None
) -> Iterator[Any]:
    try:
        while futures:
            there = executor()
            chunk = None if there is None else next(chunks, None)
            if chunk is not None:
                futures.append(there.submit(_engine._process_chunk, fn, chunk))
            del there, chunk
            left = None if deadline is None else deadline - time.monotonic()
            results = _result_or_cancel(futures.popleft(), left)
            results.reverse()
            while results:
                yield results.pop()
    finally:
        for future in futures:
            future.cancel()


def _result_or_cancel(future: Any, timeout: float | None) -> Any:
    try:
        try:
            return future.result(timeout)
        finally:
            future.cancel()
    finally:
        del future  # an exception refers to this frame

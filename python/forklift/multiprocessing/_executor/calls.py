"""The calls of one executor: what the executor and its manager thread share.

The manager thread gives the outcomes to the futures, and ends the workers when the executor is shut down,
broken or collected. It refers to this object, never to the executor, so that the executor can be collected.
"""

from __future__ import annotations

import collections
import threading
import weakref
from concurrent.futures import _base
from concurrent.futures import process as _std

from forklift import _core
from forklift.multiprocessing._executor.failures import BROKEN, broken
from forklift.multiprocessing._executor.future import Future
from forklift.multiprocessing._executor.results import Mapping
from forklift.multiprocessing._executor.workers import Plan, WorkerFactory
from forklift.multiprocessing._pool.flow import Feeder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any
else:
    Any = object

__all__ = ["Calls"]

# workers::Replace (src/workers/engine.h)
_UNLESS_BAD, _NONE = 1, 2
_engine: Any = _std  # with the private names that the standard library's type stubs do not have


class _Wakeup:
    """What the standard library calls when the interpreter exits; then it joins the manager thread."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self.wakeup = ring


class Calls:
    """Sends calls to the workers. Methods are called with `lock` held where they do not say otherwise."""

    def __init__(
        self,
        lock: Any,
        context: Any,
        plan: Plan,
        workers: int,
        first: int,
        retries: int,
        insights: bool,
    ) -> None:
        self.lock = lock
        self.breaks = plan.breaks
        self.retries = retries
        self._workers = workers
        self.broken: str | bool = False
        self.error: BaseException | None = None
        self.shut = False
        self.factory = WorkerFactory(context, plan)
        self.core = _core.PoolCore(
            self.factory,
            workers,
            most_tasks=plan.most_tasks,
            first=first,
            replace=_NONE if plan.breaks else _UNLESS_BAD,
            failures="forklift.multiprocessing._executor.failures",
            insights=insights,
        )
        self.futures = _core.PoolFutures(self.core, self, retries)
        self.feeder = Feeder(self.core)
        self._waiting: collections.deque[Any] = collections.deque()
        self._draining = False
        self._grows = first < workers
        self._maps: weakref.WeakSet[Mapping] = weakref.WeakSet()

    def submit(self, future: Future[Any], function: Any, args: Any, kwargs: Any) -> None:
        if self.feeder.busy or not self.futures.submit(future, function, args, kwargs, False):
            self._waiting.append((future, function, args, kwargs, self.futures.context()))
            if not self._draining:
                self._draining = True
                self.feeder.later(self._drain)
        self._wait_for_workers()

    def _wait_for_workers(self) -> None:
        """Wait until the workers that the calls need have been started.

        When the program's main module has run to its end, a fresh interpreter cannot import it any more.
        """
        if self._grows:
            self._grows = not self.core.wait_started()

    def _drain(self) -> None:
        """In the feeder's thread: send the calls for which there was no room."""
        while True:
            with self.lock:
                if not self._waiting:
                    self._draining = False
                    return
                future, function, args, kwargs, context = self._waiting.popleft()
            if self.futures.claim(future):
                self.futures.submit(future, function, args, kwargs, True, context)
                future._sending = False
            del future, function, args, kwargs

    def map(self, function: Any, items: list[Any], starred: bool, chunksize: int) -> Mapping:
        job = _core.PoolJob(self.core, self, 0, False, cancellable=True)
        mapping = Mapping(job, function, items, starred, chunksize, self.retries)
        self._maps.add(mapping)
        if self.feeder.busy or not mapping.send_at_once():
            self.feeder.later(mapping.send_rest)
        self._wait_for_workers()
        return mapping

    def check(self) -> str | bool:
        """Why the pool is broken; False if it is not. Without `lock`."""
        return self.broken or (not self.shut and self.core.is_broken() and BROKEN)

    def cancel(self) -> None:
        """Cancel what has not begun. Without `lock`, since it runs the callbacks of futures.

        As many of the oldest calls as there can be workers are left: the workers are about to begin them.
        """
        with self.lock:
            futures = [each[0] for each in reversed(self._waiting)] + self.futures.pending()
            maps = list(self._maps)
        for mapping in maps:
            mapping.cancel()
        for future in futures[: -self._workers]:
            future.cancel()

    def shut_down(self) -> None:
        """Accept no more calls; the workers leave when all have ended."""
        self.shut = True
        self.feeder.close()
        self.futures.ring()

    def manage(self, executor: Any) -> threading.Thread:
        """Start the manager thread of an executor."""
        ring = self.futures.ring
        reference = weakref.ref(executor, lambda _: ring())
        thread = threading.Thread(target=_manage, args=(self, reference), name="ExecutorManager")
        thread.start()
        _engine._threads_wakeups[thread] = _Wakeup(ring)
        return thread

    def end(self) -> None:
        """In the manager thread, when no more calls can come: end those that are left, and the workers."""
        self.feeder.close()
        self.feeder.wait()
        self.futures.ring()
        while self.futures.settle():
            pass
        self.core.close()
        self.core.join(None)

    def give_up(self, error: BaseException) -> None:
        """In the manager thread, when it cannot receive outcomes any more: fail all calls."""
        made = broken(self, error)
        with self.lock:
            futures = [each[0] for each in self._waiting] + self.futures.pending()
            self._waiting.clear()
        self.core.terminate()
        for future in futures:
            try:
                future.set_exception(made)
            except _base.InvalidStateError:
                pass  # it was cancelled


def _manage(calls: Calls, executor: Callable[[], Any]) -> None:
    try:
        while calls.futures.settle() or not (calls.shut or calls.broken or _is_over(executor)):
            pass
        calls.end()
    except BaseException as error:
        calls.give_up(error)
        raise


def _is_over(executor: Callable[[], Any]) -> bool:
    """Whether nobody can use the executor any more: it was collected, or the interpreter exits."""
    return executor() is None or bool(_engine._global_shutdown)

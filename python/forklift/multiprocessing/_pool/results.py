"""The results of a pool's asynchronous calls, and the thread that runs their callbacks.

The thread that waits for a result receives it. Only callbacks and ``await`` need a thread of their own, which
the first of them starts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from multiprocessing import pool as _std
from multiprocessing.context import TimeoutError

from forklift.errors import PoolStoppedError
from forklift.generic import Bases
from forklift.multiprocessing._pool.flow import Feeder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    _T = TypeVar("_T")
else:
    _T = None

__all__ = ["ApplyResult", "CallbackThread", "MapResult"]


class CallbackThread:
    """The thread that runs the callbacks of results, one after another, in the order in which they end."""

    def __init__(self, core: Any) -> None:
        self._core = core
        self._lock = threading.Lock()
        self._watched: dict[int, Any] = {}
        self.thread: threading.Thread | None = None

    def watch(self, result: ApplyResult[Any]) -> None:
        with self._lock:
            self._watched[result._job] = result
            if self.thread is None:
                self.thread = threading.Thread(target=self._run, name="PoolCallbacks", daemon=True)
                self.thread.start()
        result._task.watch()

    def _run(self) -> None:
        while (number := self._core.next_ended()) is not None:
            result = self._watched.pop(number, None)
            if result is not None:
                result._tell()
            result = None

    def end(self) -> None:
        """End the thread once it has run the callbacks of all results that have ended."""
        self._core.end_notices()
        thread = self.thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()


class _Event:
    """Stands for the threading.Event that the standard library's results have."""

    def __init__(self, result: ApplyResult[Any]) -> None:
        self._result = result

    def is_set(self) -> bool:
        return self._result.ready()

    def wait(self, timeout: float | None = None) -> bool:
        self._result.wait(timeout)
        return self.is_set()


class ApplyResult(_std.ApplyResult[_T]):
    """What ``apply_async`` returns; ``await`` waits for it in a coroutine."""

    def __init__(self, pool: Any, task: Any, number: int, callback: Any, error_callback: Any) -> None:
        self._pool = pool
        self._task = task
        self._job = number
        self._callback = callback
        self._error_callback = error_callback
        self._lock = threading.Lock()
        self._settled = False
        self._success = True
        self._value: Any = None
        self._listeners: list[Callable[[], Any]] = []
        self._told: threading.Event | None = None
        self._callbacks: CallbackThread = pool._callbacks
        self._feeder: Feeder = pool._feeder
        if callback or error_callback:
            self._told = threading.Event()

    def _begin(self) -> None:
        """Start watching for the end, if there are callbacks. Called before the tasks are submitted."""
        if self._told is not None:
            self._callbacks.watch(self)

    @property
    def _event(self) -> _Event:
        """A private name of the standard library's; read-only here."""
        return _Event(self)

    def ready(self) -> bool:
        if self._told is not None:
            return self._told.is_set()
        return bool(self._task.has_ended())

    def wait(self, timeout: float | None = None) -> None:
        if self._told is None:
            self._task.wait(timeout)
        elif not (self._settled and threading.current_thread() is self._callbacks.thread):
            self._told.wait(timeout)

    def get(self, timeout: float | None = None) -> _T:
        self.wait(timeout)
        if not (self._settled or self.ready()):
            raise self._task.explained(TimeoutError())
        self._settle()
        if self._success:
            value: _T = self._value
            return value
        raise self._value

    def successful(self) -> bool:
        if not self.ready():
            raise ValueError(f"{self!r} not ready")
        self._settle()
        return self._success

    def _settle(self) -> None:
        """Take the outcome from the core, once."""
        with self._lock:
            if self._settled:
                return
            self._take()
            self._settled = True
            self._pool = None

    def _take(self) -> None:
        taken = self._task.take(1, 0)
        self._success, self._value = taken[0][1:] if taken else (False, PoolStoppedError("no answer came"))

    def _tell(self) -> None:
        """In the callback thread, when all tasks have ended: run the callback and wake coroutines."""
        try:
            self._settle()
            callback = self._callback if self._success else self._error_callback
            stopped = self._feeder.stopped and isinstance(self._value, PoolStoppedError)
            if callback and not stopped:
                callback(self._value)
        except BaseException as error:
            threading.excepthook(
                threading.ExceptHookArgs(
                    (type(error), error, error.__traceback__, threading.current_thread())
                )
            )
        finally:
            if self._told is not None:
                self._told.set()
            with self._lock:
                listeners, self._listeners = self._listeners, []
                self._callback = self._error_callback = None
            for listener in listeners:
                listener()

    def __await__(self) -> Generator[Any, None, _T]:
        import asyncio

        loop = asyncio.get_running_loop()
        future = loop.create_future()

        def wake() -> None:
            if not future.done():
                future.set_result(None)

        def listener() -> None:
            try:
                loop.call_soon_threadsafe(wake)
            except RuntimeError:
                pass  # the loop is closed, so no coroutine waits

        with self._lock:
            waiting = not (self._settled and (self._told is None or self._told.is_set()))
            if waiting:
                self._listeners.append(listener)
        if waiting:
            self._callbacks.watch(self)
            yield from future
        return self.get()


if TYPE_CHECKING:

    class _MapBases(ApplyResult[list[_T]], _std.MapResult[_T]): ...
else:
    _MapBases = Bases(ApplyResult, _std.MapResult)


class MapResult(_MapBases[_T]):
    """What ``map_async`` and ``starmap_async`` return."""

    def __init__(
        self,
        pool: Any,
        task: Any,
        number: int,
        callback: Any,
        error_callback: Any,
        *,
        length: int,
        chunksize: int,
    ) -> None:
        ApplyResult.__init__(self, pool, task, number, callback, error_callback)
        self._chunksize = chunksize
        self._value = [None] * length
        self._chunks = -(-length // chunksize) if chunksize > 0 else 0

    @property
    def _number_left(self) -> int:
        """The number of chunks that have not ended. Programs that show progress read this private name."""
        return max(self._chunks - int(self._task.ended()), 0)

    def _take(self) -> None:
        error = self._task.gather(self._value, max(self._chunksize, 1))
        if error is not None:
            self._success, self._value = False, error

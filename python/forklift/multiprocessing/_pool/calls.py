"""The calls of a pool on Forklift's engine: apply, map, imap and their variants."""

# mypy: disable-error-code="no-any-return"
# (The core and the standard library's engine return what the program's functions return, as Any.)
from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sized
from multiprocessing import pool as _std
from multiprocessing.pool import RUN

from forklift import _core
from forklift.multiprocessing._pool.flow import (
    AHEAD_UNSEEN,
    Feeder,
    Flow,
    IMapIterator,
    IMapUnorderedIterator,
)
from forklift.multiprocessing._pool.label import Label
from forklift.multiprocessing._pool.options import chunksize_of, lookahead_of, retries_of, seconds_of
from forklift.multiprocessing._pool.progress import ProgressBar, ReportingIterator, check_progress, report_on
from forklift.multiprocessing._pool.results import ApplyResult, CallbackThread, MapResult

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    _S = TypeVar("_S")
    _T = TypeVar("_T")
    from forklift.multiprocessing._pool.progress import Progress

__all__ = ["Calls"]

# Saved, since forklift.install() replaces it.
_Standard: Any = _std.Pool
_numbers = itertools.count()
# What the core takes chunks of. A chunk of a range is a range: its numbers are made where they are used.
_SLICED = (list, tuple, range)


def _name_of(func: Any) -> str:
    return getattr(func, "__qualname__", None) or type(func).__qualname__


def _nothing(*args: Any, **kwds: Any) -> Any:
    """Stands for the function None, which the core would take for a missing one. Fails in the worker."""
    function: Any = None
    return function(*args, **kwds)


def _as_given(func: Any, args: Any, kwds: Any) -> Any:
    return func(*args, **kwds)


def _call_of(func: Any, args: Any, kwds: Any) -> tuple[Any, Any, int]:
    """A call as PoolJob takes it: the function, its arguments, and their Style (bindings/pool/task.h)."""
    if func is not None and args is not None and isinstance(kwds, dict):
        return (func, (args, kwds), 1) if kwds else (func, args, 0)
    return (_as_given, (func, args, kwds), 0)  # wrong arguments; the call fails in the worker


class Calls:
    """A pool's calls. Without Forklift's engine (`_core` is None) they call the standard library's."""

    _job: Any = _core.PoolJob  # the class of a call's tasks
    _core: Any = None
    _state: str
    _processes: int
    _defaults: tuple[float, int]  # of all calls: time-out, retries
    _feeder: Feeder
    _callbacks: CallbackThread
    _running: Any
    _check_running: Callable[[], None]

    def _options(self, timeout: float | None, retries: int | None) -> tuple[float, int]:
        seconds, again = self._defaults
        return (
            seconds if timeout is None else seconds_of(timeout),
            again if retries is None else retries_of(retries),
        )

    def apply(
        self,
        func: Callable[..., _T],
        args: Iterable[Any] = (),
        kwds: Mapping[str, Any] = {},
        *,
        timeout: float | None = None,
        retries: int | None = None,
    ) -> _T:
        """Call func(*args, **kwds) in a worker, wait, and return its result."""
        if self._core is None:
            return _Standard.apply(self, func, args, kwds)
        if getattr(self.apply_async, "__func__", None) is not Calls.apply_async:
            # A subclass overrides apply_async(), and the standard library's apply() would call it, too. Pass
            # only the options that were given, since the subclass's method may have none of them.
            options = {"timeout": timeout, "retries": retries}
            given: Any = {name: value for name, value in options.items() if value is not None}
            return self.apply_async(func, args, kwds, **given).get()
        if self._state != RUN or self._feeder.busy:
            return self.apply_async(func, args, kwds, timeout=timeout, retries=retries).get()
        seconds, again = self._options(timeout, retries)
        task = self._job(self._core, Label(f"apply({_name_of(func)})"), 0, False)
        return task.call(*_call_of(func, args, kwds), seconds, again)

    def apply_async(
        self,
        func: Callable[..., _T],
        args: Iterable[Any] = (),
        kwds: Mapping[str, Any] = {},
        callback: Callable[[_T], object] | None = None,
        error_callback: Callable[[BaseException], object] | None = None,
        *,
        timeout: float | None = None,
        retries: int | None = None,
    ) -> ApplyResult[_T]:
        """As apply(), but without waiting. Coroutines can await the result."""
        if self._core is None:
            return _Standard.apply_async(self, func, args, kwds, callback, error_callback)
        self._check_running()
        options = self._options(timeout, retries)
        number = next(_numbers)
        task = self._job(self._core, Label(f"apply_async({_name_of(func)})"), number, True)
        result: ApplyResult[_T] = ApplyResult(self, task, number, callback, error_callback)
        call = (*_call_of(func, args, kwds), 0, *options)
        self._running.add(result)
        result._begin()
        if not self._feeder.busy and task.submit(*call, False) is not False:
            task.seal()
        else:
            self._feeder.later(_then_seal(task, lambda: task.submit(*call, True)))
        return result

    def map(
        self,
        func: Callable[[_S], _T],
        iterable: Iterable[_S],
        chunksize: int | None = None,
        *,
        timeout: float | None = None,
        retries: int | None = None,
        progress: Progress = False,
    ) -> list[_T]:
        """[func(item) for item in iterable], in the workers. A chunk of several items is one task."""
        if self._core is None:
            return _Standard.map(self, func, iterable, chunksize)
        return self._map(func, iterable, False, chunksize, timeout, retries, progress)

    def starmap(
        self,
        func: Callable[..., _T],
        iterable: Iterable[Iterable[Any]],
        chunksize: int | None = None,
        *,
        timeout: float | None = None,
        retries: int | None = None,
        progress: Progress = False,
    ) -> list[_T]:
        """[func(*item) for item in iterable], in the workers."""
        if self._core is None:
            return _Standard.starmap(self, func, iterable, chunksize)
        return self._map(func, iterable, True, chunksize, timeout, retries, progress)

    def _map(
        self,
        func: Any,
        iterable: Any,
        starred: bool,
        chunksize: int | None,
        timeout: float | None,
        retries: int | None,
        progress: Any,
    ) -> Any:
        self._check_running()
        if progress:
            check_progress(progress, self._core)
        if self._feeder.busy and not progress:
            return self._map_async_on_engine(
                func, iterable, starred, chunksize, None, None, timeout, retries
            ).get()
        options = self._options(timeout, retries)
        items = iterable if type(iterable) in _SLICED else list(iterable)
        chunksize = self._chunk(len(items), chunksize, timeout)
        values: list[Any] = [None] * len(items)
        if chunksize <= 0:
            return values
        label = Label(f"{'starmap' if starred else 'map'}({_name_of(func)})", items, chunksize)
        func = _nothing if func is None else func
        task = self._job(self._core, label, 0, False)
        with ProgressBar(progress, len(items), self._core) as bar:
            error = task.map(func, items, starred, chunksize, options[0] * chunksize, options[1], values, bar)
        if error is not None:
            raise error
        return values

    def _chunk(self, length: int, chunksize: int | None, timeout: float | None) -> int:
        if length == 0:
            return 0
        if chunksize is not None:
            return chunksize_of(chunksize)
        if timeout is not None or self._defaults[0]:
            return 1
        return -(-length // (self._processes * 4))

    def map_async(
        self,
        func: Callable[[_S], _T],
        iterable: Iterable[_S],
        chunksize: int | None = None,
        callback: Callable[[list[_T]], object] | None = None,
        error_callback: Callable[[BaseException], object] | None = None,
        *,
        timeout: float | None = None,
        retries: int | None = None,
        progress: Progress = False,
    ) -> MapResult[_T]:
        """As map(), but without waiting."""
        if self._core is None:
            return _Standard.map_async(self, func, iterable, chunksize, callback, error_callback)
        self._check_running()
        return self._map_async_on_engine(
            func, iterable, False, chunksize, callback, error_callback, timeout, retries, progress
        )

    def starmap_async(
        self,
        func: Callable[..., _T],
        iterable: Iterable[Iterable[Any]],
        chunksize: int | None = None,
        callback: Callable[[list[_T]], object] | None = None,
        error_callback: Callable[[BaseException], object] | None = None,
        *,
        timeout: float | None = None,
        retries: int | None = None,
        progress: Progress = False,
    ) -> MapResult[_T]:
        """As starmap(), but without waiting."""
        if self._core is None:
            return _Standard.starmap_async(self, func, iterable, chunksize, callback, error_callback)
        self._check_running()
        return self._map_async_on_engine(
            func, iterable, True, chunksize, callback, error_callback, timeout, retries, progress
        )

    def _map_async_on_engine(
        self,
        func: Any,
        iterable: Any,
        starred: bool,
        chunksize: int | None,
        callback: Any,
        error_callback: Any,
        timeout: float | None,
        retries: int | None,
        progress: Progress = False,
    ) -> Any:
        if progress:
            check_progress(progress, self._core)
        seconds, again = self._options(timeout, retries)
        failed = None
        try:
            items = iterable if type(iterable) in _SLICED else list(iterable)
        except Exception as error:
            # As in the standard library, the error of an iterable that has a length becomes the result's.
            if not hasattr(iterable, "__len__"):
                raise
            items, failed = [], error
        chunksize = self._chunk(len(items), chunksize, timeout)
        number = next(_numbers)
        label = Label(f"{'starmap' if starred else 'map'}_async({_name_of(func)})", items, chunksize)
        func = _nothing if func is None else func
        task = self._job(self._core, label, number, True)
        if chunksize <= 0 and failed is None:
            callback = error_callback = (
                None  # as in the standard library, whose result is ready from the start
            )
        result: MapResult[Any] = MapResult(
            self, task, number, callback, error_callback, length=len(items), chunksize=chunksize
        )
        self._running.add(result)
        if failed is not None:
            task.fail(0, failed)
        last = -(-len(items) // chunksize) if chunksize > 0 else 0
        result._begin()
        if progress and failed is None:
            report_on(task, ProgressBar(progress, len(items), self._core), chunksize, len(items))

        def feed(start: int, patient: bool) -> int:
            return int(
                task.feed(func, items, starred, chunksize, start, last, seconds * chunksize, again, patient)
            )

        start = 0 if self._feeder.busy or not last else feed(0, False)
        if start >= last:
            task.seal()
        else:
            self._feeder.later(_then_seal(task, lambda: feed(start, True)))
        return result

    def imap(
        self,
        func: Callable[[_S], _T],
        iterable: Iterable[_S],
        chunksize: int = 1,
        *,
        lookahead: int | None = None,
        timeout: float | None = None,
        retries: int | None = None,
        progress: Progress = False,
    ) -> _std.IMapIterator[_T]:
        """An iterator over the results, in order. ``lookahead`` bounds how many tasks are sent ahead of it.

        Without ``lookahead``, tasks are sent as fast as possible until 256 MiB of results wait to be taken.
        That bound is lifted by ``close()``, and when the iterator is dropped.
        """
        if self._core is None:
            return _Standard.imap(self, func, iterable, chunksize)
        return self._iterate(func, iterable, chunksize, True, lookahead, timeout, retries, progress)

    def imap_unordered(
        self,
        func: Callable[[_S], _T],
        iterable: Iterable[_S],
        chunksize: int = 1,
        *,
        lookahead: int | None = None,
        timeout: float | None = None,
        retries: int | None = None,
        progress: Progress = False,
    ) -> _std.IMapIterator[_T]:
        """An iterator over the results, in the order in which they arrive."""
        if self._core is None:
            return _Standard.imap_unordered(self, func, iterable, chunksize)
        return self._iterate(func, iterable, chunksize, False, lookahead, timeout, retries, progress)

    def _iterate(
        self,
        func: Any,
        iterable: Iterable[Any],
        chunksize: int,
        ordered: bool,
        lookahead: int | None,
        timeout: float | None,
        retries: int | None,
        progress: Any,
    ) -> Any:
        self._check_running()
        if progress:
            check_progress(progress, self._core)
        chunksize = 1 if chunksize == 1 else chunksize_of(chunksize)
        if chunksize < 1:
            raise ValueError(f"Chunksize must be 1+, not {chunksize:n}")
        lookahead = lookahead_of(lookahead)
        seconds, again = self._options(timeout, retries)
        options = (seconds * chunksize, again)
        listed = iterable if type(iterable) in _SLICED else None
        label = Label(f"imap{'' if ordered else '_unordered'}({_name_of(func)})", listed, chunksize)
        func = _nothing if func is None else func
        task = self._job(self._core, label, 0, False)
        flow = Flow(task, chunksize, lookahead)
        results = (IMapIterator if ordered else IMapUnorderedIterator)(self, flow)
        if type(iterable) in _SLICED and lookahead is None:
            items: Any = iterable
            last = -(-len(items) // chunksize)
            start = 0
            if not self._feeder.busy:
                at_once = min(last, AHEAD_UNSEEN)
                start = task.feed(func, items, False, chunksize, 0, at_once, *options, False)
                flow.add(start)
            if start >= last:
                flow.end()
            else:
                # In a thread of its own, since it may have to wait until results are taken.
                self._feeder.apart(lambda: flow.send_items(func, items, options, start), flow)
        else:
            self._feeder.apart(lambda: flow.send_all(func, iterable, options), flow)
        if progress:
            total = len(iterable) if isinstance(iterable, Sized) else None
            return ReportingIterator(results, ProgressBar(progress, total, self._core), chunksize, total)
        return results


def _then_seal(task: Any, send: Callable[[], Any]) -> Callable[[], None]:
    def run() -> None:
        try:
            send()
        finally:
            task.seal()

    return run

"""``progress=`` of a pool's calls: shows tqdm's bar, or calls a function with the number of ended items.

With ``progress="insights"`` the bar says beside it how much of their time the workers work and wait.
"""

from __future__ import annotations

import threading
import time
import warnings
from multiprocessing import pool as _std
from multiprocessing.context import TimeoutError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Literal, TypeAlias

    Progress: TypeAlias = bool | Callable[[int], object] | Literal["insights"]

__all__ = ["ProgressBar", "ReportingIterator", "check_progress", "report_on"]

# How often the progress of an asynchronous call is read. (A bar is drawn every 0.1 s at most.)
_LOOK_SECONDS = 0.05
# How often the words beside a bar change, as often as a bar is drawn.
_WORDS_SECONDS = 0.1


def check_progress(progress: Progress, core: Any) -> None:
    """Refuse what ``progress=`` cannot be, before anything is sent."""
    if not isinstance(progress, str):
        return
    if progress != "insights":
        raise ValueError(f"progress must be a bool, a function or 'insights', not {progress!r}")
    if core.insights() is None:
        raise ValueError("progress='insights' needs a pool that was made with insights=True")


class ProgressBar:
    """tqdm's bar, if it is wanted and installed; or a function that is called with the number of ended items.

    As a context manager it returns the function to call with each number of items, or None.
    """

    def __init__(self, wanted: Progress, total: int | None, core: Any, level: int = 4) -> None:
        self._bar: Any = None
        self.call: Any = wanted if callable(wanted) else None
        if wanted and self.call is None:
            try:
                from tqdm.auto import tqdm
            except ImportError:
                warnings.warn("progress=True needs tqdm, which is not installed", stacklevel=level)
            else:
                self._bar = tqdm(total=total)
                self.call = self._bar.update
                if wanted == "insights":
                    self._core = core
                    self._words_at = 0.0
                    self.call = self._update

    def __enter__(self) -> Any:
        return self.call

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def _update(self, count: int) -> None:
        now = time.monotonic()
        if now >= self._words_at:
            self._words_at = now + _WORDS_SECONDS
            self._say()
        self._bar.update(count)

    def _say(self) -> None:
        from forklift.multiprocessing._pool.insights import ratios_of

        self._bar.set_postfix_str(ratios_of(self._core), refresh=False)

    def close(self) -> None:
        if self._bar is not None and self.call == self._update:
            self._say()
        bar, self._bar = self._bar, None
        if bar is not None:
            bar.close()


class ReportingIterator(_std.IMapIterator):  # type: ignore[type-arg]
    """An iterator over results that reports each result to the bar, including those that are exceptions."""

    def __init__(self, results: Any, bar: ProgressBar, chunksize: int, total: int | None) -> None:
        self._results = results
        self._bar = bar
        self._chunksize = chunksize
        self._left = total

    def __iter__(self) -> Any:
        return self

    def next(self, timeout: float | None = None) -> Any:
        """The next result, waited for at most `timeout` seconds: then multiprocessing.TimeoutError."""
        # An exception with a cause is a task's (the cause is the worker's traceback). Only without a cause is
        # StopIteration the iterator's end and TimeoutError its time-out.
        try:
            result = self._results.next(timeout)
        except Exception as error:
            if error.__cause__ is not None or type(error) not in (StopIteration, TimeoutError):
                self._report(self._chunksize)  # all items of the failed task
            elif type(error) is StopIteration:
                self._bar.close()
            raise
        self._report(1)
        return result

    __next__ = next

    def _report(self, count: int) -> None:
        if self._left is not None:
            count = min(count, self._left)
            self._left -= count
        if self._bar.call is not None and count:
            self._bar.call(count)

    def __del__(self) -> None:
        bar = getattr(self, "_bar", None)
        if bar is not None:
            bar.close()

    def __getattr__(self, name: str) -> Any:
        # For the private names of the standard library's iterator, which programs read.
        if name == "_results":
            raise AttributeError(name)
        return getattr(self._results, name)


def report_on(task: Any, bar: ProgressBar, chunksize: int, total: int) -> None:
    """Start a thread that reports the ended items of an asynchronous call."""
    threading.Thread(
        target=_watch, args=(task, bar, chunksize, total), name="PoolProgress", daemon=True
    ).start()


def _watch(task: Any, bar: ProgressBar, chunksize: int, total: int) -> None:
    reported = 0
    with bar as call:
        ended = total == 0
        while not ended and call is not None:
            ended = task.wait(_LOOK_SECONDS)
            count = total if ended else min(int(task.ended()) * chunksize, total)
            if count > reported:
                call(count - reported)
                reported = count

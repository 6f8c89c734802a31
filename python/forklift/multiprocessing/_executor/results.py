"""The results of an executor's ``map``.

No future is made for an item: its results come in bulk, and the thread that iterates takes them itself.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import _base

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Mapping"]

# How many tasks are sent, and how many results are taken, at a time.
_AT_ONCE = 256


class Mapping:
    """One call of ``map``: sends its tasks of `chunksize` items, and iterates over the results in order."""

    def __init__(
        self, job: Any, function: Any, items: list[Any], starred: bool, chunksize: int, retries: int
    ) -> None:
        self._job = job
        self._call = (function, items, starred, chunksize)
        self._chunked = chunksize > 1
        self._last = -(-len(items) // chunksize)
        self._retries = retries
        self._changed = threading.Condition()
        self._sent = 0
        self._stopped = False

    def send_at_once(self) -> bool:
        """Send tasks until the workers' queue is full. True: all have been sent."""
        self._sent = self._job.feed(*self._call, 0, self._last, 0.0, self._retries, False)
        if self._sent < self._last:
            return False
        del self._call
        return True

    def send_rest(self) -> None:
        """In a thread of the pool: send the rest, waiting for room."""
        while self._sent < self._last and not self._stopped:
            upto = self._job.feed(*self._call, self._sent, _AT_ONCE, 0.0, self._retries, True)
            with self._changed:
                self._sent = upto
                self._changed.notify_all()
        if self._stopped:
            self._job.cancel_all()  # those that were sent while cancel() ran
        del self._call

    def cancel(self) -> None:
        """Cancel the tasks that have not begun. Their results raise CancelledError."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        self._job.cancel_all()

    def results(self, deadline: float | None) -> Iterator[Any]:
        """Iterate over the results until `deadline` (of time.monotonic); then TimeoutError."""
        ready: dict[int, Any] = {}
        failed: dict[int, BaseException] = {}
        number = came = 0
        try:
            while number < self._last:
                if number in ready:  # yield without keeping a reference
                    if self._chunked:
                        chunk = ready.pop(number)
                        chunk.reverse()
                        while chunk:
                            yield chunk.pop()
                    else:
                        yield ready.pop(number)
                    number += 1
                elif number in failed:
                    _raise(failed, number)
                else:
                    came += self._take(came, deadline, ready, failed)
        finally:
            if number < self._last:
                self.cancel()

    def _take(
        self, came: int, deadline: float | None, ready: dict[int, Any], failed: dict[int, BaseException]
    ) -> int:
        """Take the results that are there, waiting for the first one. Returns how many."""
        left = None if deadline is None else max(deadline - time.monotonic(), 0.0)
        with self._changed:
            if came == self._sent:
                if self._stopped:
                    raise _base.CancelledError
                if not self._changed.wait(left):
                    raise self._job.explained(_base.TimeoutError())
                return 0
        taken = self._job.take(_AT_ONCE, left)
        if taken is None:
            time.sleep(0.001)  # another thread is receiving an answer at this moment
            return 0
        if not taken:
            raise self._job.explained(_base.TimeoutError())
        for index, ok, value in taken:
            (ready if ok else failed)[index] = value
        return len(taken)


def _raise(failed: dict[int, BaseException], number: int) -> None:
    try:
        raise failed[number]
    finally:
        failed.clear()  # an exception refers to the frames through which it passes

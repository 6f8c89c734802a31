"""One call of a cluster's pool: what forklift._core.PoolJob is to the local pool, with the same methods.

So the calls of the local pool (`Calls`), its results, its iterations and their flow control work on a cluster
unchanged. A job's tasks are packed in the calling thread, and results are unpacked by the thread that asks
for them; the dispatcher only passes packed ones.
"""

from __future__ import annotations

import collections
import threading
import time
from typing import Any

from forklift.cluster.ends import Ends
from forklift.cluster.packing import PLAIN, all_plain, unpack
from forklift.cluster.sending import Sender
from forklift.errors import WorkerDiedError
from forklift.multiprocessing._pool import failures
from forklift.multiprocessing._pool.label import Label

__all__ = ["Job"]


class Job:
    """See the module. `core` is the pool's `Core`; the rest is as for forklift._core.PoolJob."""

    def __init__(self, core: Any, label: Label, number: int, eager: bool, cancellable: bool = False) -> None:
        del eager, cancellable
        self._core = core
        self._label = label
        self._number = number
        self._changed = threading.Condition()
        self._came: collections.deque[Ends] = collections.deque()
        self._waiting = 0  # bytes of results that were not taken
        self._bytes = 0  # of all results
        self._sent = 0
        self._ended = 0
        self._sealed = False
        self._watched = False
        self._told = False
        self._sender: Sender | None = None
        self.task_seconds = 0.0  # a task's mean duration; 0: not known. Of the dispatcher
        self._borrows = False

    # --- sending

    def _sender_of(self, function: Any, items: Any) -> Sender:
        if self._sender is None or self._sender.function is not function:
            self._sender = Sender(self._core, function, items, self._borrows)
        return self._sender

    def submit(
        self,
        function: Any,
        arguments: Any,
        style: int,
        index: int,
        seconds: float,
        retries: int,
        patient: bool,
        /,
    ) -> bool | None:
        """Send one task. False: there is no room, and the caller is not `patient`."""
        if not self._core.wait_for_room(patient):
            return False
        try:
            segment = self._sender_of(function, None).segment(arguments, style, self, index, seconds, retries)
        except Exception as error:
            self._fail_at(index, error)
            return None
        self._send(segment)
        return True

    def feed(
        self,
        function: Any,
        items: Any,
        starred: bool,
        chunk: int,
        next: int,
        most: int,
        seconds: float,
        retries: int,
        patient: bool,
        /,
    ) -> int:
        """Send at most `most` tasks from `next` on; returns the number of the first one that was not sent."""
        last = min(next + most, -(-len(items) // chunk))
        while next < last and self._core.wait_for_room(patient):
            upto = min(last, next + max(1, self._core.AT_ONCE // chunk))
            try:
                sender = self._sender_of(function, items)
            except Exception as error:  # of the function
                for index in range(next, last):
                    self._fail_at(index, error)
                return last
            segments, failed = sender.segments(items, starred, chunk, next, upto, self, seconds, retries)
            for segment in segments:
                self._send(segment)
            for index, refusal in failed:
                self._fail_at(index, refusal)
            next = upto
        return next

    def _send(self, segment: Any) -> None:
        with self._changed:
            self._sent += len(segment.indices)
        self._core.enqueue(segment)

    def fail(self, index: int, exception: BaseException, /) -> None:
        """Let a task fail with an exception of the calling process."""
        self._fail_at(index, exception)

    def _fail_at(self, index: int, error: BaseException) -> None:
        with self._changed:
            self._sent += 1
        self.end(Ends([index], [None], {0: error}))

    def seal(self) -> None:
        """No more tasks follow."""
        with self._changed:
            self._sealed = True
            self._sender = None
            self._changed.notify_all()
        self._tell()

    # --- ends

    def end(self, ends: Ends) -> None:
        """Tasks have ended; called by the dispatcher."""
        with self._changed:
            self._came.append(ends)
            self._ended += len(ends.indices)
            self._waiting += ends.size
            self._bytes += ends.size
            self._changed.notify_all()
        self._tell()

    def _tell(self) -> None:
        with self._changed:
            if self._told or not self._watched or not self._has_ended():
                return
            self._told = True
        self._core.note_ended(self._number)

    def watch(self) -> None:
        """Have the end of all tasks noted, for the pool's thread of callbacks."""
        with self._changed:
            self._watched = True
        self._tell()

    def _has_ended(self) -> bool:
        return self._sealed and self._ended == self._sent

    def has_ended(self) -> bool:
        return self._has_ended()

    def ended(self) -> int:
        return self._ended

    def progress(self) -> tuple[int, int, int]:
        """Tasks that have ended; bytes of results that were not taken; bytes of all results."""
        with self._changed:
            return self._ended, self._waiting, self._bytes

    def wait_progress(self, seen: int, /) -> None:
        """Wait until more than `seen` tasks have ended."""
        with self._changed:
            while self._ended <= seen and not self._core.stopped:
                self._changed.wait()

    def wait(self, timeout: float | None) -> bool:
        """Wait at most so many seconds until all tasks have ended; tells whether they have."""
        until = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            while not self._has_ended():
                left = None if until is None else until - time.monotonic()
                if left is not None and left <= 0:
                    return False
                self._changed.wait(left)
        return True

    def explained(self, error: BaseException) -> BaseException:
        """The error of a wait whose time is over, as it is: who could have ended it is on other nodes."""
        return error

    # --- results

    def _next_ends(self, timeout: float | None) -> Ends | None:
        """The oldest ends that were not taken; None after so many seconds without any."""
        until = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            while not self._came:
                left = None if until is None else until - time.monotonic()
                if left is not None and left <= 0:
                    return None
                self._changed.wait(left)
            ends = self._came.popleft()
            self._waiting -= ends.size
            return ends

    def take(self, most: int, timeout: float | None) -> list[tuple[int, bool, Any]]:
        """(index, whether there is a value, value or exception) of some tasks; empty after the time-out."""
        ends = self._next_ends(timeout)
        if ends is None:
            return []
        if len(ends.indices) > most:
            rest = Ends(ends.indices[most:], ends.values[most:], _shifted(ends.failures, most))
            with self._changed:
                self._came.appendleft(rest)
                self._waiting += rest.size
            ends = Ends(ends.indices[:most], ends.values[:most], ends.failures)
        failed = ends.failures or {}
        return [
            (index, *self._outcome(index, value, failed.get(place)))
            for place, (index, value) in enumerate(zip(ends.indices, ends.values, strict=True))
        ]

    def gather(self, values: list[Any], chunk: int, /) -> Any:
        """Put all results that have come into `values`. Returns the first exception, or None."""
        error = None
        while (ends := self._next_ends(0)) is not None:
            error = self._put_in_place(ends, values, chunk, error)
        return error

    def _put_in_place(self, ends: Ends, values: list[Any], chunk: int, error: Any) -> Any:
        indices = ends.indices
        if chunk == 1 and ends.failures is None and type(indices) is range and all_plain(ends.values):
            values[indices.start : indices.stop] = ends.values
            return error
        failed = ends.failures or {}
        for place, (index, value) in enumerate(zip(indices, ends.values, strict=True)):
            ok, value = self._outcome(index, value, failed.get(place))
            if not ok:
                error = error or value
            elif chunk == 1:
                values[index] = value
            else:
                values[index * chunk : (index + 1) * chunk] = value
        return error

    def map(
        self,
        function: Any,
        items: Any,
        starred: bool,
        chunk: int,
        seconds: float,
        retries: int,
        values: list[Any],
        progress: Any,
        /,
    ) -> Any:
        """Send all tasks, wait for all, put their results into `values`; returns the first exception."""
        self._borrows = True
        last = -(-len(items) // chunk)
        next = done = 0
        error = None
        while done < last:
            before = next
            # With nothing under way no result will come, so wait for room.
            most = max(1, self._core.AT_ONCE // chunk)
            next = self.feed(function, items, starred, chunk, next, most, seconds, retries, next == done)
            ends = self._next_ends(None if next in (before, last) else 0)
            if ends is None:
                continue
            came = len(ends.indices)
            error = self._put_in_place(ends, values, chunk, error)
            if progress is not None:
                count = len(items)
                progress(min((done + came) * chunk, count) - min(done * chunk, count))
            done += came
        return error

    def call(self, function: Any, arguments: Any, style: int, seconds: float, retries: int, /) -> Any:
        """Send one task, wait for it and return its result."""
        self._borrows = True
        self.submit(function, arguments, style, 0, seconds, retries, True)
        (_, ok, value), *_ = self.take(1, None)
        if ok:
            return value
        raise value

    def _outcome(self, index: int, value: Any, failure: Any) -> tuple[bool, Any]:
        """Unpack a result, or make the exception with which the task failed."""
        if failure is not None:
            return False, self._exception(index, failure)
        kind = type(value)
        if kind in PLAIN or kind is list:
            return True, value
        if kind is tuple and len(value) == 1:
            return False, failures.revive(self._label, index, value[0])
        try:
            if kind is tuple:
                return True, unpack(value[0], [self._core.own(each) for each in value[1]])
            return True, unpack(value)
        except Exception as reason:
            return False, failures.undecodable(self._label, index, reason)

    def _exception(self, index: int, failure: Any) -> BaseException:
        if isinstance(failure, BaseException):
            return failure
        label = self._label
        kind, *rest = failure
        if kind == "ended":
            return failures.ended(label, index, *rest)
        if kind == "lost":
            return _lost(label, index, *rest)
        if kind == "revive":
            return failures.revive(label, index, *rest)
        if kind == "unreadable":
            return failures.unreadable(label, index, *rest)
        return failures.stopped(label, index, *rest)


def _lost(label: Label, task: int, node: str, pid: int) -> BaseException:
    """The exception for a task whose node was lost, or its agent died."""
    text, index = label.task(task), label.first(task)
    return WorkerDiedError(
        f"{text}: its node {node} was lost", pid=pid, task=text, index=index, item=label.item(index)
    )


def _shifted(failed: dict[int, Any] | None, by: int) -> dict[int, Any] | None:
    if failed is None:
        return None
    return {place - by: failure for place, failure in failed.items() if place >= by} or None

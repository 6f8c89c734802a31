"""The tasks of a cluster's pool that no agent has yet, in order.

Any thread may put tasks; one thread takes them. There is room for a bounded number of tasks and bytes, which
`wait_for_room` waits for; `put` itself never waits.
"""

from __future__ import annotations

import collections
import threading

from forklift.cluster.segment import Segment

__all__ = ["Pending"]

_MOST_TASKS = 32768
_MOST_BYTES = 128 << 20


class Pending:
    """See the module."""

    def __init__(self) -> None:
        self._room = threading.Condition()
        self._segments: collections.deque[Segment] = collections.deque()
        self._bytes = 0
        self._closed = False
        self.tasks = 0

    def __bool__(self) -> bool:
        return bool(self._segments)

    def _is_full(self) -> bool:
        return self.tasks >= _MOST_TASKS or self._bytes >= _MOST_BYTES

    def wait_for_room(self, patient: bool) -> bool:
        """Tell whether there is room; `patient`: wait for it. True, too, if no more tasks are accepted."""
        with self._room:
            while patient and self._is_full() and not self._closed:
                self._room.wait()
            return self._closed or not self._is_full()

    def put(self, segment: Segment) -> bool:
        """Add tasks. False: no tasks are accepted any more."""
        with self._room:
            if self._closed:
                return False
            self._segments.append(segment)
            self._count(segment, 1)
            return True

    def put_back(self, segment: Segment) -> None:
        """Add tasks that were taken before: they are the first again."""
        with self._room:
            self._segments.appendleft(segment)
            self._count(segment, 1)

    def first(self) -> Segment | None:
        """The segment that `take` cuts from."""
        with self._room:
            return self._segments[0] if self._segments else None

    def take(self, count: int) -> Segment:
        """Take at most so many tasks off the first segment, of which there must be one."""
        with self._room:
            segment = self._segments[0]
            if len(segment) <= count:
                self._segments.popleft()
            else:
                self._segments[0] = segment.part(count, len(segment))
                segment = segment.part(0, count)
            self._count(segment, -1)
            if not self._is_full():
                self._room.notify_all()
            return segment

    def close(self) -> None:
        """Accept no more tasks."""
        with self._room:
            self._closed = True
            self._room.notify_all()

    def _count(self, segment: Segment, sign: int) -> None:
        self.tasks += sign * len(segment)
        self._bytes += sign * segment.bytes

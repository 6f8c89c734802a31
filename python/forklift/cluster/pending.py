"""The tasks of a cluster's pool that no agent has yet, in order.

Any thread may put tasks; one thread takes them. There is room for a bounded number of tasks and bytes, which
`wait_for_room` waits for; `put` itself never waits.
"""

from __future__ import annotations

import collections
import threading

from forklift.cluster.segment import Segment

__all__ = ["Pending"]

_LEAST_TASKS = 32768  # of room
_TASKS_OF_A_WORKER = 16
_MOST_BYTES = 128 << 20


class Pending:
    """See the module."""

    def __init__(self) -> None:
        self._room = threading.Condition()
        self._segments: collections.deque[Segment] = collections.deque()
        self._taken = 0  # tasks of the first segment
        self._bytes = 0
        self._closed = False
        self._most_tasks = _LEAST_TASKS
        self.tasks = 0

    def __bool__(self) -> bool:
        return bool(self._segments)

    def make_room(self, workers: int) -> None:
        """Have room for what so many workers take while the driver looks after the others."""
        with self._room:
            self._most_tasks = max(_LEAST_TASKS, _TASKS_OF_A_WORKER * workers)
            self._room.notify_all()

    def _is_full(self) -> bool:
        return self.tasks >= self._most_tasks or self._bytes >= _MOST_BYTES

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
            if self._taken:
                self._cut()
            self._segments.appendleft(segment)
            self._count(segment, 1)

    def first(self) -> Segment | None:
        """The segment that `take` cuts from."""
        with self._room:
            return self._segments[0] if self._segments else None

    def take(self, count: int) -> Segment:
        """Take at most so many tasks off the first segment, of which there must be one."""
        with self._room:
            segment, begin = self._segments[0], self._taken
            end = min(begin + count, len(segment))
            taken = segment if end - begin == len(segment) else segment.part(begin, end)
            self._taken = end
            if end == len(segment):
                self._segments.popleft()
                self._taken = 0
            elif end > len(segment) // 2:  # cutting it off each time would cost each batch a copy of the rest
                self._cut()
            self._count(taken, -1)
            if not self._is_full():
                self._room.notify_all()
            return taken

    def close(self) -> None:
        """Accept no more tasks."""
        with self._room:
            self._closed = True
            self._room.notify_all()

    def _cut(self) -> None:
        """Drop what was taken of the first segment."""
        first = self._segments[0]
        self._segments[0] = first.part(self._taken, len(first))
        self._taken = 0

    def _count(self, segment: Segment, sign: int) -> None:
        self.tasks += sign * len(segment)
        self._bytes += sign * segment.bytes

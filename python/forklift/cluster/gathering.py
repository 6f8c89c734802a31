"""When an agent replies: it lets ended tasks gather while its workers still have enough to do.

A reply for each task of 50 ms makes a driver of ten nodes with 64 workers each busy all the time. An agent
has some 30 ms of work ahead of its workers, 120 ms if it is the only one; it may use a part of that. Without
work ahead it replies at once, so a task that runs alone is not held up.
"""

from __future__ import annotations

__all__ = ["Gathering"]

# The part of the work ahead for whose time ended tasks may gather, and the most, in seconds.
_SHARE = 1 / 3
_MOST_SECONDS = 0.02


class Gathering:
    """See the module. Times are those of ``time.monotonic()``."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._task_seconds = 0.0  # a task's mean duration, as of the last reply that knows it
        self._until: float | None = None  # None: nothing gathers
        self._enough = 0  # with so many tasks before the workers it is time to reply

    def until(self, now: float, tasks: int) -> float:
        """When to reply, while some tasks' ends are to be reported and `tasks` others have not ended."""
        waiting = tasks - self._workers
        if self._until is None:
            ahead = max(waiting, 0) * self._task_seconds / self._workers
            self._until = now + min(_SHARE * ahead, _MOST_SECONDS)
            self._enough = max(waiting, 0) // 2
        return now if waiting <= self._enough else self._until

    def replied(self, task_seconds: float) -> None:
        """A reply is made. `task_seconds`: the mean duration of its tasks; 0: it has none."""
        self._until = None
        if task_seconds > 0:
            self._task_seconds = task_seconds

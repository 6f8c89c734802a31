"""Workers of ``concurrent.futures.ProcessPoolExecutor``.

The executor's thread sleeps on its workers' sentinels and on its queue of results, whose descriptor is rung
by a thread of Forklift. A worker that ends because it has done its last task says so with its last result. If
the executor sees the worker's end first, it takes the worker for killed, and the executor is broken. So such
a worker waits until its last result has been taken.
"""

from __future__ import annotations

import sys
import time

from forklift import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["is_worker", "report_last_result", "until_taken", "work"]

_SEQUENCES = 1 << 30  # messages are counted modulo this


def is_worker(target: Any) -> bool:
    """Tells whether this is the function that an executor's processes run."""
    module = sys.modules.get("concurrent.futures.process")
    return module is not None and target in (getattr(module, "_process_worker", work), work)


def report_last_result(process_obj: Any) -> None:
    """In the parent, before a process of any class or context starts: give an executor's worker `work`."""
    target = getattr(process_obj, "_target", None)
    args: Any = getattr(process_obj, "_args", ())
    # Two queues, an initializer with its arguments and, from Python 3.11 on, how many tasks it may do.
    if is_worker(target) and len(args) > 4 and args[4] is not None and _has_channel(args[1]):
        process_obj._target = work


def _has_channel(queue: Any) -> bool:
    return isinstance(queue, _core.QueueBase) and not getattr(queue, "_standard", False)


def work(calls: Any, results: Any, *rest: Any) -> None:
    """In the child: the standard library's worker, which ends once its last result has been taken."""
    from concurrent.futures import process

    watched = _Results(results)
    process._process_worker(calls, watched, *rest)  # type: ignore[arg-type]
    if watched.has_last:
        until_taken(results)


class _Results:
    """An executor's queue of results, as its worker uses it; notes whether the last result was put."""

    def __init__(self, queue: Any) -> None:
        self._queue = queue
        self.has_last = False

    def put(self, obj: Any) -> None:
        self._queue.put(obj)
        self.has_last = getattr(obj, "exit_pid", None) is not None


def until_taken(queue: Any, seconds: float = 5.0) -> bool:
    """Wait until all that is in the queue now has been taken; False when that takes longer than `seconds`."""
    taken, waiting = queue._taken(), queue._size()
    while taken != (again := queue._taken()):  # two figures of one moment
        taken, waiting = again, queue._size()
    deadline = time.monotonic() + seconds
    pause = 0.0001
    while (queue._taken() - taken) % _SEQUENCES < waiting:
        if time.monotonic() >= deadline:
            return False
        time.sleep(pause)
        pause = min(2 * pause, 0.01)
    return True

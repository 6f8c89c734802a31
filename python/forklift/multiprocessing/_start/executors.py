"""Makes workers of ``concurrent.futures.ProcessPoolExecutor`` wait until their last result has been taken.

The executor's thread waits for its workers' sentinels and for the descriptor of its result queue, which a
thread of Forklift signals. A worker that ends because it has done its last task says so in its last result
(decisions/0095). If the executor sees the worker's end before that result, it takes the worker for killed,
and the executor breaks. So such a worker waits until its last result has been taken.
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
    """In the parent, before a process starts: if it is an executor's worker, make `work` its function."""
    target = getattr(process_obj, "_target", None)
    args: Any = getattr(process_obj, "_args", ())
    # The arguments: two queues, an initializer, its arguments and, from Python 3.11 on, the number of tasks
    # after which the worker ends.
    if is_worker(target) and len(args) > 4 and args[4] is not None and _has_channel(args[1]):
        process_obj._target = work


def _has_channel(queue: Any) -> bool:
    return isinstance(queue, _core.QueueBase) and not getattr(queue, "_standard", False)


def work(calls: Any, results: Any, *rest: Any) -> None:
    """In the child: run the standard library's worker, and wait until its last result has been taken."""
    from concurrent.futures import process

    watched = _Results(results)
    process._process_worker(calls, watched, *rest)  # type: ignore[arg-type]
    if watched.has_last:
        until_taken(results)


class _Results:
    """Wraps an executor's result queue for its worker, and notes whether the last result was put."""

    def __init__(self, queue: Any) -> None:
        self._queue = queue
        self.has_last = False

    def put(self, obj: Any) -> None:
        self._queue.put(obj)
        self.has_last = getattr(obj, "exit_pid", None) is not None


def until_taken(queue: Any, seconds: float = 5.0) -> bool:
    """Wait until all messages that are in the queue now have been taken. False: `seconds` have passed."""
    taken, waiting = queue._taken(), queue._size()
    while taken != (again := queue._taken()):  # until both numbers are of the same moment
        taken, waiting = again, queue._size()
    deadline = time.monotonic() + seconds
    pause = 0.0001
    while (queue._taken() - taken) % _SEQUENCES < waiting:
        if time.monotonic() >= deadline:
            return False
        time.sleep(pause)
        pause = min(2 * pause, 0.01)
    return True

"""An executor's worker processes: how they are made, and the function that they run.

The C++ engine calls the factory, at times in its supervisor thread (decisions/0081).
"""

from __future__ import annotations

import pickle
from multiprocessing.reduction import ForkingPickler

from forklift import _core
from forklift.multiprocessing._pool.label import end_traces
from forklift.multiprocessing._start.invitation import parent_sentinel
from forklift.multiprocessing.queues import SimpleQueue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["Described", "Plan", "WorkerFactory", "describe", "work"]

# The pickle of an exception, its traceback as text, and its repr().
Described = tuple[bytes, str, str]

# PoolWorker's argument `ends` (bindings/pool/worker.cpp). As in the standard library, a call that cannot be
# unpickled ends its worker, unless the death of a worker fails its call alone.
_UNDECODED_ENDS, _NOTHING_ENDS = 1, 2


class Plan:
    """What each worker gets."""

    def __init__(
        self,
        initializer: Callable[..., object] | None,
        initargs: Any,
        most_tasks: int,
        breaks: bool,
        name: str,
    ) -> None:
        self.initializer = initializer
        self.initargs = initargs
        self.most_tasks = most_tasks
        self.breaks = breaks
        self.name = name


class WorkerFactory:
    """Makes an executor's workers, one at a time, and keeps them by their pids."""

    def __init__(self, context: Any, plan: Plan) -> None:
        self._context = context
        self._plan = plan
        self.processes: dict[int, Any] = {}

    def queue(self) -> Any:
        """A queue object without a channel, to which the engine gives one."""
        return SimpleQueue.__new__(SimpleQueue)

    def start(self, tasks: Any, answers: Any, table: Any, index: int) -> tuple[Any, int, int]:
        process = self._context.Process(target=work, args=(tasks, answers, table, index, self._plan))
        process.start()
        self.processes[process.pid] = process
        return process, process.pid, process.sentinel

    def wait(self, process: Any) -> Any:
        """Wait for a worker that has ended. Returns its exit code."""
        process.join()
        self.processes.pop(process.pid, None)
        return process.exitcode


def work(tasks: Any, answers: Any, table: Any, index: int, plan: Plan) -> None:
    """The main function of a worker process."""
    worker = _core.PoolWorker(tasks, answers, table, index, plan.most_tasks, 0, parent_sentinel())
    if plan.initializer is not None:
        worker.initializing()
        try:
            plan.initializer(*plan.initargs)
        except BaseException as error:
            from concurrent.futures import _base

            _base.LOGGER.critical("Exception in initializer:", exc_info=True)
            worker.fail(describe(error))
            return
    try:
        if worker.ready():
            worker.run(describe, describe, _UNDECODED_ENDS if plan.breaks else _NOTHING_ENDS, plan.name)
    except KeyboardInterrupt:
        # Print no traceback: the parent is interrupted as well, and those of the workers would hide its own.
        raise SystemExit(130) from None
    finally:
        end_traces()


work.ends_with_parent = True  # type: ignore[attr-defined]


def describe(exc: BaseException, *_: Any) -> Described:
    """Describe what a call raised, or why its result cannot be sent."""
    try:
        pickled = bytes(ForkingPickler.dumps(exc))
    except BaseException as reason:  # sent instead, as in the standard library
        exc = reason
        try:
            pickled = bytes(ForkingPickler.dumps(exc))
        except BaseException as again:
            pickled = pickle.dumps(RuntimeError(f"an exception that cannot be pickled: {again!r}"))
    import traceback

    text = "".join(traceback.format_exception(type(exc), exc, exc.__traceback__))
    try:
        shown = repr(exc)
    except Exception:
        shown = object.__repr__(exc)
    return pickled, text, shown

"""Makes a pool's worker processes, and has the function that they run.

The C++ engine decides when to start a worker, and when to wait for one that has ended. It calls the factory
for both, at times in its supervisor thread. The factory refers to the pool's options and its list of
processes, never to the pool itself, so the garbage collector can free a pool that is no longer referenced.

An exception is sent as its pickle together with its traceback as text. If the pickle cannot be read, the task
still fails with the traceback, and the pool goes on.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Sequence
from multiprocessing import process as _std_process
from multiprocessing import util as _std_util
from multiprocessing.reduction import ForkingPickler

from forklift import _core
from forklift.multiprocessing._pool.label import end_traces, shortened
from forklift.multiprocessing._start.invitation import parent_sentinel
from forklift.multiprocessing.queues import SimpleQueue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "Description",
    "Plan",
    "WorkerFactory",
    "describe",
    "describe_unsendable",
    "shown",
    "text_of",
    "work",
    "worker_id",
]

# (pickle of the exception, its traceback, its repr(), the item's index in the task, the item's short repr())
Description = tuple[bytes, str, str, int, "str | None"]

_index: int | None = None


def worker_id() -> int:
    """The number of this worker in its pool: 0, 1, ... A worker may have the number of one that it replaces.

    RuntimeError in a process that is not a worker of a pool.
    """
    if _index is None:
        raise RuntimeError("this process is no worker of a pool")
    return _index


class Plan:
    """The options that a pool passes to each of its workers."""

    # Not a dataclass: in a worker, importing `dataclasses` takes as long as importing the rest of Forklift.
    def __init__(
        self,
        initializer: Callable[..., Any] | None = None,
        initargs: Any = (),
        finalizer: Callable[[], Any] | None = None,
        most_tasks: int = 0,
        most_memory: int = 0,
        cpus: Sequence[set[int]] | None = None,
        nested: bool = False,
        log: Any = None,  # (queue, level)
        name: str = "",
    ) -> None:
        self.initializer = initializer
        self.initargs = initargs
        self.finalizer = finalizer
        self.most_tasks = most_tasks
        self.most_memory = most_memory
        self.cpus = cpus
        self.nested = nested
        self.log = log
        self.name = name


class WorkerFactory:
    """Makes a pool's workers, one at a time."""

    def __init__(self, make: Any, ctx: Any, plan: Plan, pool: list[Any]) -> None:
        self._make = make
        self._ctx = ctx
        self._plan = plan
        self._pool = pool
        self.queues: list[Any] = []

    def queue(self) -> Any:
        """A queue object without a channel, to which the engine gives one."""
        if len(self.queues) >= 2:
            return SimpleQueue.__new__(SimpleQueue)
        self.queues.append(SimpleQueue.__new__(SimpleQueue))
        return self.queues[-1]

    def start(self, tasks: Any, answers: Any, table: Any, index: int) -> Any:
        process = self._make(self._ctx, target=work, args=(tasks, answers, table, index, self._plan))
        process.name = process.name.replace("Process", "PoolWorker")
        process.daemon = True
        process.start()
        self._pool.append(process)
        _std_util.debug("added worker")
        return process, process.pid, process.sentinel

    def wait(self, process: Any) -> Any:
        """Wait for a worker that has ended, and remove it from the pool's list. Returns its exit code."""
        process.join()
        if process in self._pool:
            self._pool.remove(process)
        return process.exitcode


def work(tasks: Any, answers: Any, table: Any, index: int, plan: Plan) -> None:
    """The main function of a worker process."""
    worker = _core.PoolWorker(
        tasks, answers, table, index, plan.most_tasks, plan.most_memory, parent_sentinel()
    )
    try:
        _apply_options(index, plan)
        if plan.initializer is not None:
            worker.initializing()
            plan.initializer(*plan.initargs)
        if not worker.ready():
            return
    except Exception as error:
        worker.fail(describe(error))
        raise
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    try:
        worker.run(describe, describe_unsendable, pool=plan.name)
        _std_util.debug("worker exiting")
        if plan.finalizer is not None:
            plan.finalizer()
    except KeyboardInterrupt:
        # Print no traceback: the parent is interrupted as well, and those of the workers would hide its own.
        raise SystemExit(130) from None
    finally:
        end_traces()


def _apply_options(index: int, plan: Plan) -> None:
    global _index
    _index = index
    if plan.nested:
        config: Any = _std_process.current_process()
        config._config["daemon"] = False
    if plan.cpus:
        os.sched_setaffinity(0, plan.cpus[index % len(plan.cpus)])
    if plan.log is not None:
        from forklift.multiprocessing._pool.log_records import send_records  # imports logging

        send_records(*plan.log)


# --- describing what a task failed with


def shown(value: Any) -> str:
    """The value's repr(); a default one if its repr() raises."""
    try:
        return repr(value)
    except Exception:
        return object.__repr__(value)


class _Shown:
    """Stands for a value whose repr() may raise."""

    def __init__(self, value: Any) -> None:
        self._text = shown(value)

    def __repr__(self) -> str:
        return self._text


def text_of(exc: BaseException) -> str:
    """The exception's traceback as text; its repr() if there is none to be had."""
    import traceback

    try:
        return "".join(traceback.format_exception(type(exc), exc, exc.__traceback__))
    except Exception:
        return shown(exc)


def describe(exc: BaseException, place: int = 0, item: tuple[Any] | None = None) -> Description:
    """Describe an exception to send it. `place`: the item's index in the task; -1: there is no function."""
    if place < 0:
        exc = _explained(exc)
    text = text_of(exc)
    which = (place, None if item is None else shortened(item[0]))
    try:
        return (bytes(ForkingPickler.dumps(exc)), text, shown(exc), *which)
    except Exception as reason:
        return (*_instead(reason, exc, text), *which)


def _explained(exc: BaseException) -> BaseException:
    """The exception, extended by the probable reason why this worker does not find the function."""
    if not isinstance(exc, (AttributeError, ImportError)):
        return exc
    why = (
        "a function must be defined before the pool is made, since its workers are forked then"
        if getattr(_std_process.current_process(), "_start_method", None) == "fork"
        else "workers import the main module anew, and find in it what is defined at its top level only"
    )
    found = type(exc)(f"{exc}: the pool's worker does not have this function ({why})")
    found.__cause__ = exc
    return found


def describe_unsendable(reason: BaseException, result: Any) -> Description:
    """Describe a result that could not be sent."""
    return (*_instead(reason, result, ""), 0, None)


def _instead(reason: BaseException, value: Any, text: str) -> tuple[bytes, str, str]:
    # A late import: after install() the standard library's module imports Forklift's, which imports this one.
    from multiprocessing.pool import MaybeEncodingError  # type: ignore[attr-defined]

    wrapped = MaybeEncodingError(_Shown(reason), _Shown(value))
    both = f"{text}\n{text_of(reason)}" if text else text_of(reason)
    return (pickle.dumps(wrapped), both, shown(value))

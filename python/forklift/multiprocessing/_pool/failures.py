"""Makes the exceptions with which a pool's tasks fail, in the process that made the pool."""

from __future__ import annotations

import builtins
import pickle
import signal
from multiprocessing import context as _std_context
from multiprocessing import pool as _std
from multiprocessing.reduction import ForkingPickler

from forklift.errors import ForkliftError, PoolStoppedError, WorkerDiedError
from forklift.multiprocessing._pool.label import Label
from forklift.multiprocessing._pool.workers import Description, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["ResultDecodingError", "TaskTimeoutError", "ended", "pickle_by_value", "revive", "stopped"]

# The standard library's type stubs do not have these names.
_engine: Any = _std
MaybeEncodingError: Any = _engine.MaybeEncodingError
RemoteTraceback: Any = _engine.RemoteTraceback

# The module by whose name these classes pickle: importing this module first would be a circular import.
_PUBLIC = "forklift.multiprocessing.pool"


class TaskTimeoutError(ForkliftError, _std_context.TimeoutError, builtins.TimeoutError):
    """A task ran longer than its ``timeout``; its worker was killed and replaced.

    ``task``: the task as text; ``index``: the index of its first item; ``item``: that item's representation,
    shortened, or None if it is not known.
    """

    __module__ = _PUBLIC

    def __init__(self, text: str, *, task: str = "", index: int = 0, item: str | None = None) -> None:
        super().__init__(text)
        self.task = task
        self.index = index
        self.item = item


def _remote_traceback(text: str, index: int, item: str | None) -> BaseException:
    """The cause of an exception that a task raised: its traceback in the worker, and the item.

    It has the standard library's class itself, and no subclass, since programs compare classes by identity.
    """
    cause: BaseException = RemoteTraceback(text)
    cause.index, cause.item = index, item  # type: ignore[attr-defined]
    return cause


class ResultDecodingError(MaybeEncodingError):  # type: ignore[misc]
    """A result, or a task's exception, cannot be unpickled. ``index``, ``item``: the item it belongs to."""

    __module__ = _PUBLIC

    def __init__(self, exc: str, value: str, index: int = 0, item: str | None = None) -> None:
        Exception.__init__(self, exc, value)
        self.exc = exc
        self.value = value
        self.index = index
        self.item = item

    def __str__(self) -> str:
        return f"Error receiving result: '{self.value}'. Reason: '{self.exc}'"


def pickle_by_value(function: Any) -> bytes | None:
    """Pickle a function by cloudpickle. None if pickle takes it, or cloudpickle is not installed."""
    try:
        ForkingPickler.dumps(function)
        return None
    except Exception:
        pass
    try:
        import cloudpickle  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        return None
    pickled: bytes = cloudpickle.dumps(function)
    return pickled


def revive(label: Label, task: int, description: Description) -> BaseException:
    """Make the exception that a worker described."""
    pickled, text, representation, place, shown_item = description
    index = label.first(task) + max(place, 0)
    item = shown_item or label.item(index)
    if item is not None:
        text = f"{text.rstrip()}\n(item {index} of {label.name}: {item})\n"
    try:
        exc = pickle.loads(pickled)
        if not isinstance(exc, BaseException):
            raise TypeError(f"the pickle of an exception is one of {type(exc).__name__}")
    except Exception as reason:
        return _unreadable(reason, representation, text, index, item)
    exc.__cause__ = _remote_traceback(f'\n"""\n{text}"""', index, item)
    return exc


def undecodable(label: Label, task: int, reason: BaseException) -> BaseException:
    """The exception for a result that cannot be unpickled. Raises `reason` if that is no Exception."""
    if not isinstance(reason, Exception):
        raise reason
    index = label.first(task)
    return _unreadable(reason, f"the result of {label.task(task)}", "", index, label.item(index))


def _unreadable(reason: BaseException, what: str, text: str, index: int, item: str | None) -> BaseException:
    if text and reason.__cause__ is None:
        reason.__cause__ = _remote_traceback(f'\n"""\n{text}"""', index, item)
    error = ResultDecodingError(shown(reason), what, index, item)
    error.__cause__ = reason
    return error


def unreadable(label: Label, task: int, why: str) -> BaseException:
    """The exception for a task whose message the worker could not use."""
    return ForkliftError(f"{label.task(task)} did not reach its worker: {why}")


def ended(label: Label, number: int, late: bool, pid: int, exitcode: int) -> BaseException:
    """The exception for a task whose worker died, or was killed because the task took too long (`late`)."""
    task, index = label.task(number), label.first(number)
    item = label.item(index)
    if late:
        text = f"{task} was over its time; its worker {pid} was killed"
        return TaskTimeoutError(text, task=task, index=index, item=item)
    text = f"{task}: its worker (pid {pid}) {how_it_ended(exitcode)}"
    return WorkerDiedError(text, pid=pid, exitcode=exitcode, task=task, index=index, item=item)


def how_it_ended(exitcode: int) -> str:
    if exitcode >= 0:
        return f"ended with exit code {exitcode}"
    try:
        return f"was killed by signal {signal.Signals(-exitcode).name}"
    except ValueError:
        return f"was killed by signal {-exitcode}"


def stopped(label: Label, number: int, why: str, last_words: Description | None) -> BaseException:
    """The exception for a task that had not ended when the pool stopped."""
    task = label.task(number)
    if not why:
        return PoolStoppedError(f"{task} had not ended when the pool was terminated")
    error = PoolStoppedError(f"{task} cannot be run: {why}")
    if last_words is not None:
        error.__cause__ = revive(Label(label.name), 0, last_words)
    return error

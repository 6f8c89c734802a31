"""What a pool's task fails with, in the process that made the pool."""

from __future__ import annotations

import builtins
import pickle
import signal
from multiprocessing import context as _std_context
from multiprocessing import pool as _std
from multiprocessing.reduction import ForkingPickler

from forklift.errors import ForkliftError, PoolStoppedError, WorkerDiedError
from forklift.multiprocessing.pool_workers import Description, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["ResultDecodingError", "TaskTimeoutError", "ended", "pickle_by_value", "revive", "stopped"]

# The type stubs do not name them.
_engine: Any = _std
MaybeEncodingError: Any = _engine.MaybeEncodingError
RemoteTraceback: Any = _engine.RemoteTraceback

# Where pickles find them: this module cannot be imported before that one.
_PUBLIC = "forklift.multiprocessing.pool"


class TaskTimeoutError(ForkliftError, _std_context.TimeoutError, builtins.TimeoutError):
    """A task ran longer than its ``timeout``; its worker was killed and replaced."""

    __module__ = _PUBLIC

    def __init__(self, text: str, *, task: str = "") -> None:
        super().__init__(text)
        self.task = task


class ResultDecodingError(MaybeEncodingError):  # type: ignore[misc]
    """A result, or a task's exception, arrived but cannot be unpickled here."""

    __module__ = _PUBLIC

    def __init__(self, exc: str, value: str) -> None:
        Exception.__init__(self, exc, value)
        self.exc = exc
        self.value = value

    def __str__(self) -> str:
        return f"Error receiving result: '{self.value}'. Reason: '{self.exc}'"


def pickle_by_value(function: Any) -> bytes | None:
    """A function that pickle refuses, by cloudpickle. None: not to blame, or no cloudpickle is there."""
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


def revive(label: str, index: int, description: Description) -> BaseException:
    """The exception that a worker described."""
    pickled, text, representation = description
    try:
        exc = pickle.loads(pickled)
        if not isinstance(exc, BaseException):
            raise TypeError(f"the pickle of an exception is one of {type(exc).__name__}")
    except Exception as reason:
        return _unreadable(reason, representation, text)
    exc.__cause__ = RemoteTraceback(f'\n"""\n{text}"""')
    return exc


def undecodable(label: str, index: int, reason: BaseException) -> BaseException:
    """A result that cannot be unpickled."""
    return _unreadable(reason, f"the result of {name_of(label, index)}", "")


def _unreadable(reason: BaseException, what: str, text: str) -> BaseException:
    if text and reason.__cause__ is None:
        reason.__cause__ = RemoteTraceback(f'\n"""\n{text}"""')
    error = ResultDecodingError(shown(reason), what)
    error.__cause__ = reason
    return error


def name_of(label: str, index: int) -> str:
    return f"task {index} of {label}"


def unreadable(label: str, index: int, why: str) -> BaseException:
    """A message that its receiver could not use."""
    return ForkliftError(f"{name_of(label, index)} did not reach its worker: {why}")


def ended(label: str, index: int, late: bool, pid: int, exitcode: int) -> BaseException:
    """A worker died with its task, or was killed for its sake."""
    task = name_of(label, index)
    if late:
        return TaskTimeoutError(f"{task} was over its time; its worker {pid} was killed", task=task)
    return WorkerDiedError(
        f"{task}: its worker (pid {pid}) {_how(exitcode)}", pid=pid, exitcode=exitcode, task=task
    )


def _how(exitcode: int) -> str:
    if exitcode >= 0:
        return f"ended with exit code {exitcode}"
    try:
        return f"was killed by signal {signal.Signals(-exitcode).name}"
    except ValueError:
        return f"was killed by signal {-exitcode}"


def stopped(label: str, index: int, why: str, last_words: Description | None) -> BaseException:
    """The pool ended before the task did."""
    task = name_of(label, index)
    if not why:
        return PoolStoppedError(f"{task} had not ended when the pool was terminated")
    error = PoolStoppedError(f"{task} cannot be run: {why}")
    if last_words is not None:
        error.__cause__ = revive(label, index, last_words)
    return error

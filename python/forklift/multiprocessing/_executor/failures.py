"""Makes the exceptions of an executor's calls. The core calls these functions by their names.

`calls` is the executor's `Calls`, in which the first break of the pool is noted.
"""

from __future__ import annotations

import pickle
import traceback
from concurrent.futures import _base
from concurrent.futures import process as _std

from forklift.errors import ForkliftError, WorkerDiedError
from forklift.multiprocessing._executor.workers import Described
from forklift.multiprocessing._pool.failures import ResultDecodingError, how_it_ended

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["BROKEN", "broken"]

# Programs compare these texts.
BROKEN = "A child process terminated abruptly, the process pool is not usable anymore"
_PENDING_BROKEN = (
    "A process in the process pool was terminated abruptly while the future was running or pending."
)
_RemoteTraceback: Any = _std._RemoteTraceback


def _with_text(exc: BaseException, text: str) -> BaseException:
    exc.__cause__ = _RemoteTraceback(f'\n"""\n{text}"""')
    return exc


def _text_of(exc: BaseException) -> str:
    return "".join(traceback.format_exception(type(exc), exc, exc.__traceback__))


def broken(calls: Any, cause: BaseException | None) -> BaseException:
    """The exception for all calls that have not ended when the pool breaks. The first cause is kept."""
    if calls.error is None:
        calls.error = _std.BrokenProcessPool(_PENDING_BROKEN)
        calls.error.__cause__ = cause
        calls.broken = BROKEN
    error: BaseException = calls.error
    return error


def stopped(calls: Any, _number: int, why: str, last_words: Described | None) -> BaseException:
    """The exception for a call that had not ended when the pool stopped."""
    cause: BaseException | None = None
    if last_words is not None:
        cause = revive(calls, 0, last_words)
    elif why:
        cause = WorkerDiedError(why)
    return broken(calls, cause)


def revive(_calls: Any, _number: int, description: Described) -> BaseException:
    """Make the exception that a worker described."""
    pickled, text, shown = description
    try:
        exc = pickle.loads(pickled)
        if not isinstance(exc, BaseException):
            raise TypeError(f"the pickle of an exception is one of {type(exc).__name__}")
    except Exception as reason:
        error = ResultDecodingError(repr(reason), shown)
        return _with_text(error, text)
    return _with_text(exc, text)


def undecodable(calls: Any, _number: int, reason: BaseException) -> BaseException:
    """The exception for a result that cannot be unpickled. As in the standard library, it breaks the pool,
    unless the death of a worker does not."""
    if isinstance(reason, KeyboardInterrupt):
        raise reason
    if not calls.breaks:
        error = ResultDecodingError(repr(reason), "the result of a call")
        error.__cause__ = reason
        return error
    made = broken(calls, _RemoteTraceback(f"\n'''\n{_text_of(reason)}'''"))
    calls.core.terminate()
    return made


def unreadable(_calls: Any, _number: int, why: str) -> BaseException:
    """The exception for a call whose message the worker could not use."""
    return ForkliftError(f"a call did not reach its worker: {why}")


def unsent(_calls: Any, exc: BaseException) -> BaseException:
    """The exception for a call that cannot be pickled."""
    return _with_text(exc, _text_of(exc))


def ended(_calls: Any, _number: int, _late: bool, pid: int, exitcode: int) -> BaseException:
    """The exception for a call whose worker died, where that does not break the pool."""
    return WorkerDiedError(
        f"the call's worker (pid {pid}) {how_it_ended(exitcode)}", pid=pid, exitcode=exitcode, task="a call"
    )


def cancelled(_calls: Any) -> BaseException:
    """The exception for a call that was cancelled before it began."""
    return _base.CancelledError()

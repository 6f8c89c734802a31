"""The futures of an executor: the standard library's class, made at a fraction of its cost.

A new future has neither a condition nor lists: it makes them when somebody waits for it or watches it. Most
futures of a large batch end before. The engine knows whether a worker has begun a call, so `cancel` and
`running` ask it.
"""

from __future__ import annotations

import threading
from concurrent.futures import _base

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    _T = TypeVar("_T")
else:
    _T = Any = None

__all__ = ["Future"]

_PENDING, _RUNNING, _CANCELLED = _base.PENDING, _base.RUNNING, _base.CANCELLED
_FINISHED = _base.FINISHED
_LATER = {"_condition": threading.Condition, "_waiters": list, "_done_callbacks": list}


class Future(_base.Future[_T]):
    """What ``ProcessPoolExecutor.submit`` returns; see ``concurrent.futures.Future``."""

    # The members of a future that has not ended. `_core.PoolFutures` stores an outcome.
    _state = _PENDING
    _result: Any = None
    _exception: BaseException | None = None
    _owner: Any = None  # the PoolFutures to which the call was given, until it has ended
    _place = 0
    _sending = False  # a thread is giving a call that had to wait to the engine

    __init__ = object.__init__

    def __getattr__(self, name: str) -> Any:
        make: Any = _LATER.get(name)
        if make is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        made = self.__dict__.setdefault(name, make())
        owner = self._owner
        if owner is not None:
            owner.watch()
        return made

    def cancel(self) -> bool:
        """Cancel the call if no worker has begun it. False: it has begun or ended."""
        with self._condition:
            if self._state == _PENDING and (
                self._sending or (self._owner is not None and not self._owner.cancel(self, self._place))
            ):
                return False
            if self._state != _PENDING:
                return self._state not in (_RUNNING, _FINISHED)
            self._state = _CANCELLED
            self._condition.notify_all()
        self._invoke_callbacks()
        return True

    # Without the condition, which a future that has ended need not make.

    def done(self) -> bool:
        """Tell whether the call has ended or was cancelled."""
        return self._state == _FINISHED or super().done()

    def result(self, timeout: float | None = None) -> _T:
        """The call's result, or what it raised. TimeoutError after `timeout` seconds; CancelledError."""
        owner = self._owner
        if owner is not None and self._state == _PENDING:
            timeout = owner.help(self, self._place, timeout)
        if self._state == _FINISHED and self._exception is None:
            value: _T = self._result
            return value
        try:
            return super().result(timeout)
        except _base.TimeoutError as error:
            self._explain(owner, error)
            raise
        finally:
            del self  # an exception refers to this frame

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """What the call raised; None if it returned. TimeoutError and CancelledError as for result()."""
        owner = self._owner
        if owner is not None and self._state == _PENDING:
            timeout = owner.help(self, self._place, timeout)
        if self._state == _FINISHED:
            return self._exception
        try:
            return super().exception(timeout)
        except _base.TimeoutError as error:
            self._explain(owner, error)
            raise

    def _explain(self, owner: Any, error: BaseException) -> None:
        """Where the program asks for it, add what the workers do to the error of a time-out."""
        if owner is not None and self._state == _PENDING:
            owner.explained(error)

    def running(self) -> bool:
        """Tell whether a worker has begun the call, and the result has not come."""
        with self._condition:
            owner = self._owner
            return self._state == _PENDING and owner is not None and bool(owner.has_begun(self, self._place))

    def claim(self) -> bool:
        """Note that the call is about to be given to the engine. False: it was cancelled before."""
        with self._condition:
            if self._state == _PENDING:
                self._sending = True
                return True
        self.set_running_or_notify_cancel()
        return False

"""What an asynchronous call returns: torch.distributed.Work, for calls that a thread of ours does."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import torch
from torch.distributed import DistBackendError

__all__ = ["Work", "done", "seconds_of"]


def seconds_of(timeout: timedelta | None) -> float | None:
    """A time-out of torch's in seconds. None if there is none, which torch writes as 0 or less."""
    seconds = None if timeout is None else timeout.total_seconds()
    return seconds if seconds is not None and seconds > 0 else None


def done(result: list[Any]) -> Any:
    """The Work of a call that is over."""
    future = torch.futures.Future()
    future.set_result(result)
    return torch._C._distributed_c10d._create_work_from_future(future)


class Work(torch.distributed.Work):  # type: ignore[misc]  # torch has no types here
    """A call that is under way. ``wait`` raises what the call itself would have raised."""

    def __init__(self, result: list[Any], what: str) -> None:
        super().__init__()
        self._result = result
        self._what = what
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._error: BaseException | None = None
        self._base: Any = None  # completed when the call is over, if somebody has asked for the future
        self._future: Any = None

    def finish(self, error: BaseException | None = None) -> None:
        """The call is over; for the thread that has done it."""
        with self._lock:
            self._error = error
            self._ended.set()
            base = self._base
        if base is not None:
            base.set_result(None)

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Until the call is over. DistBackendError after ``timeout``; the call goes on then."""
        if not self._ended.wait(seconds_of(timeout)):
            raise DistBackendError(f"{self._what}: not over after {timeout}, which wait() was given")
        if self._error is not None:
            raise self._error
        return True

    def is_completed(self) -> bool:
        return self._ended.is_set()

    def is_success(self) -> bool:
        return self._ended.is_set() and self._error is None

    def exception(self) -> Any:
        return self._error

    def synchronize(self) -> None:
        self.wait()

    def result(self) -> list[Any]:
        return self._result

    def get_future(self) -> Any:
        """The call's tensors, later. Its error is a RuntimeError with the text of the call's."""
        over = None
        with self._lock:
            if self._future is None:
                base = torch.futures.Future()
                # Errors that a callback raises are errors for C++, too, which set_exception()'s are not.
                self._future = base.then(self._value)
                if self._ended.is_set():
                    over = base
                else:
                    self._base = base
        if over is not None:
            over.set_result(None)
        return self._future

    def _value(self, _base: Any) -> list[Any]:
        if self._error is not None:
            raise self._error
        return self._result

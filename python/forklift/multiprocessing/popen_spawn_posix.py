"""Starts a child as a fresh interpreter: the standard library's Popen, with an invitation for the child."""

from __future__ import annotations

import os
from multiprocessing import popen_spawn_posix as _std

from forklift import _core
from forklift.multiprocessing._start.events import log_end, log_start
from forklift.multiprocessing._start.invitation import invitation_for
from forklift.multiprocessing._start.launch import PackedProcess
from forklift.multiprocessing._start.options import take_options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Popen"]


class Popen(_std.Popen):
    hang: Any = None  # the error of a child that was started with a time-out and hung

    def _launch(self, process_obj: Any) -> None:
        take_options(process_obj)  # they are for this start: the child shall not get them
        invitation = invitation_for(self)
        try:
            super()._launch(PackedProcess(process_obj, invitation))  # type: ignore[misc]
        finally:
            invitation.close()
        log_start(self, process_obj)

    def wait(self, timeout: float | None = None) -> int | None:
        if self.returncode is not None or timeout == 0:
            return super().wait(timeout)
        with _core.ProcessWait(self.pid, timeout):
            return super().wait(timeout)

    def poll(self, flag: int = os.WNOHANG) -> int | None:
        known = self.returncode
        code: int | None = super().poll(flag)
        if known is None and code is not None:
            log_end(self, code)
            _core.reap()
        return code


def __getattr__(name: str) -> Any:
    return getattr(_std, name)

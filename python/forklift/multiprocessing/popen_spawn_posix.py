"""Starts a child as a fresh interpreter: the standard library's Popen, with an invitation for the child."""

from __future__ import annotations

from multiprocessing import popen_spawn_posix as _std

from forklift.multiprocessing._start.ending import knowing_end
from forklift.multiprocessing._start.invitation import invitation_for
from forklift.multiprocessing._start.launch import PackedProcess
from forklift.multiprocessing._start.options import take_options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Popen"]


class Popen(knowing_end(_std.Popen)):  # type: ignore[misc]
    hang: Any = None  # the error of a child that was started with a time-out and hung

    def _launch(self, process_obj: Any) -> None:
        take_options(process_obj)  # they are for this start: the child shall not get them
        invitation = invitation_for(self)
        try:
            super()._launch(PackedProcess(process_obj, invitation))
        finally:
            invitation.close()
        self._log_start(process_obj)


def __getattr__(name: str) -> Any:
    return getattr(_std, name)

"""Starts a child from the fork server: the standard library's Popen, with an invitation for the child."""

from __future__ import annotations

import os
import signal
from multiprocessing import popen_forkserver as _std

from forklift.multiprocessing._start import zygote
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
        zygote.ensure_running(self)
        try:
            self._launch_invited(process_obj)
        except BaseException:
            zygote.note_end(self)
            raise
        try:
            zygote.tell()
        except Warning:  # a filter has made it an exception: no process may be left that nobody knows
            os.kill(self.pid, signal.SIGKILL)
            self.wait()
            raise

    def _launch_invited(self, process_obj: Any) -> None:
        invitation = invitation_for(self)
        try:
            super()._launch(PackedProcess(process_obj, invitation))
        except (EOFError, ConnectionError) as error:
            raise zygote.error_for(error) from None
        finally:
            invitation.close()
        self._log_start(process_obj)

    def _note_end(self) -> None:
        zygote.note_end(self)


def __getattr__(name: str) -> Any:
    return getattr(_std, name)

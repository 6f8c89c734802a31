"""Starts a child from the fork server: the standard library's Popen, with an invitation for the child."""

from __future__ import annotations

import os
import signal
from multiprocessing import forkserver as _std_forkserver
from multiprocessing import popen_forkserver as _std
from multiprocessing import util as _std_util

from forklift.multiprocessing._start import zygote
from forklift.multiprocessing._start.ending import knowing_end
from forklift.multiprocessing._start.invitation import invitation_for
from forklift.multiprocessing._start.launch import pack
from forklift.multiprocessing._start.options import take_options
from forklift.multiprocessing._start.together import after_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Popen"]


class Popen(knowing_end(_std.Popen)):  # type: ignore[misc]
    pid: int | None = None  # until the server has answered
    hang: Any = None  # the error of a child that was started with a time-out and hung

    def _launch(self, process_obj: Any) -> None:
        take_options(process_obj)  # they are for this start: the child shall not get them
        invitation = None
        try:
            invitation = invitation_for(self)
            data = pack(self, process_obj, invitation)
            zygote.ensure_running(self)
            writer = self._ask()
        except BaseException as error:
            self._not_started(invitation)
            if isinstance(error, (EOFError, ConnectionError)):
                raise zygote.error_for(error) from None
            raise
        after_all(lambda: self._finish(process_obj, invitation, writer, data))

    def _ask(self) -> int:
        """The first part of the standard library's ``_launch``: the request, which is answered by a pid."""
        writer: int
        self.sentinel, writer = _std_forkserver.connect_to_new_process(self._fds)
        # The child sees by the other end of this pipe that its parent lives.
        kept = os.dup(writer)
        util: Any = _std_util
        self.finalizer = util.Finalize(self, util.close_fds, (kept, self.sentinel))
        return writer

    def _finish(self, process_obj: Any, invitation: Any, writer: int, data: bytes) -> None:
        """The second part: the data, and the answer."""
        server: Any = _std_forkserver
        try:
            with open(writer, "wb", closefd=True) as file:
                file.write(data)
            pid: int = server.read_signed(self.sentinel)
            self.pid = pid
        except BaseException as error:
            self._not_started(invitation)
            if isinstance(error, (EOFError, ConnectionError)):
                raise zygote.error_for(error) from None
            raise
        invitation.close()
        self._log_start(process_obj)
        try:
            zygote.tell()
        except Warning:  # a filter has made it an exception: no process may be left that nobody knows
            os.kill(pid, signal.SIGKILL)
            self.wait()
            raise

    def poll(self, flag: int = os.WNOHANG) -> int | None:
        # What comes first is the pid, which nobody shall take for the exit code: the start of another process
        # asks all that there are.
        code: int | None = None if self.pid is None else super().poll(flag)
        return code

    def _not_started(self, invitation: Any) -> None:
        if invitation is not None:
            invitation.close()
        zygote.note_end(self)

    def _note_end(self) -> None:
        zygote.note_end(self)


def __getattr__(name: str) -> Any:
    return getattr(_std, name)

"""Starts a child as a fresh interpreter: the standard library's Popen, with an invitation for the child.

The child's command is the standard library's but for the function that it calls (forklift.fresh_child), and
so is what it reads from its pipe.
"""

from __future__ import annotations

import os
from multiprocessing import popen_spawn_posix as _std
from multiprocessing import resource_tracker as _std_resource_tracker
from multiprocessing import spawn as _std_spawn
from multiprocessing import util as _std_util

from forklift import child_boot
from forklift.multiprocessing._start.ending import knowing_end
from forklift.multiprocessing._start.invitation import invitation_for
from forklift.multiprocessing._start.launch import pack
from forklift.multiprocessing._start.options import take_options
from forklift.multiprocessing._start.together import after_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Popen"]

_STANDARD = "from multiprocessing.spawn import spawn_main; "
_OURS = "from forklift.fresh_child import spawn_main; "


class Popen(knowing_end(_std.Popen)):  # type: ignore[misc]
    hang: Any = None  # the error of a child that was started with a time-out and hung

    def _launch(self, process_obj: Any) -> None:
        take_options(process_obj)  # they are for this start: the child shall not get them
        invitation = invitation_for(self)
        try:
            self._launch_packed(pack(self, process_obj, invitation))
        finally:
            invitation.close()
        self._log_start(process_obj)

    def _launch_packed(self, data: bytes) -> None:
        """The standard library's ``_launch`` with our command, and a write that may be for later."""
        tracker: Any = _std_resource_tracker
        tracker_fd = tracker.getfd()
        self._fds.append(tracker_fd)
        opened: list[int] = []
        childs: list[int] = []
        try:
            sentinel, childs_end = os.pipe()
            opened.append(sentinel)
            childs.append(childs_end)
            source, writer = os.pipe()
            opened.append(writer)
            childs.append(source)
            command = _command(_std_spawn.get_command_line(tracker_fd=tracker_fd, pipe_handle=source))
            self._fds.extend([source, childs_end])
            spawnv: Any = _std_util.spawnv_passfds
            self.pid = spawnv(_std_spawn.get_executable(), command, self._fds)
            self.sentinel = sentinel
            after_all(lambda: _write(writer, data))
        finally:
            self.finalizer = _std_util.Finalize(self, _std_util.close_fds, opened)  # type: ignore[attr-defined]
            for fd in childs:
                os.close(fd)


def _write(writer: int, data: bytes) -> None:
    with open(writer, "wb", closefd=False) as file:
        file.write(data)


def _command(command: list[Any]) -> list[Any]:
    """The standard library's command with our function. A program's own command stays as it is."""
    code = command[-2] if len(command) > 2 else None
    if isinstance(code, str) and code.startswith(_STANDARD):
        command[-2] = f"{child_boot.find_package()}{_OURS}{code.removeprefix(_STANDARD)}"
    return command


def __getattr__(name: str) -> Any:
    return getattr(_std, name)

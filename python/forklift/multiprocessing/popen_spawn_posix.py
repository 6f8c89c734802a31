"""Starting a child as a fresh interpreter: the standard library's Popen, with an invitation for the child."""

from __future__ import annotations

from multiprocessing import popen_spawn_posix as _std
from typing import Any

from forklift.multiprocessing.joining import Parcel, invitation_for
from forklift.multiprocessing.popen_fork import ReapingPopen

__all__ = ["Popen"]


class Popen(ReapingPopen, _std.Popen):
    def _launch(self, process_obj: Any) -> None:
        invitation = invitation_for(self)
        try:
            _std.Popen._launch(self, Parcel(process_obj, invitation))  # type: ignore[attr-defined]
        finally:
            invitation.close()

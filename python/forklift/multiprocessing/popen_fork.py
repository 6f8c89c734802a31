"""Starting a child by fork: the standard library's Popen, with a domain in place before the fork."""

from __future__ import annotations

import os
from multiprocessing import popen_fork as _std

from forklift import _core
from forklift.multiprocessing.executors import attend
from forklift.multiprocessing.joining import ensure_domain
from forklift.multiprocessing.lifeline import Tied, lifeline_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Popen"]


class Popen(_std.Popen):
    def _launch(self, process_obj: Any) -> None:
        ensure_domain()
        attend(process_obj)
        line = lifeline_for(process_obj)
        super()._launch(process_obj if line is None else Tied(process_obj, line))  # type: ignore[misc]

    def poll(self, flag: int = os.WNOHANG) -> int | None:
        known = self.returncode
        code: int | None = super().poll(flag)
        if known is None and code is not None:
            # What the child held is given back now, not only when somebody waits for memory.
            _core.reap()
        return code


def __getattr__(name: str) -> Any:
    return getattr(_std, name)

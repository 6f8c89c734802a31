"""Starts a child by fork: the standard library's Popen, which first makes sure that there is a domain."""

from __future__ import annotations

import os
from multiprocessing import popen_fork as _std

from forklift import _core
from forklift.multiprocessing._start.executors import report_last_result
from forklift.multiprocessing._start.launch import ensure_domain
from forklift.multiprocessing._start.lifeline import ProcessWithLifeline, lifeline_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Popen"]


class Popen(_std.Popen):
    def _launch(self, process_obj: Any) -> None:
        ensure_domain()
        report_last_result(process_obj)
        line = lifeline_for(process_obj)
        super()._launch(process_obj if line is None else ProcessWithLifeline(process_obj, line))  # type: ignore[misc]

    def poll(self, flag: int = os.WNOHANG) -> int | None:
        known = self.returncode
        code: int | None = super().poll(flag)
        if known is None and code is not None:
            # Give back what the child held now, and not only when some process needs memory.
            _core.reap()
        return code


def __getattr__(name: str) -> Any:
    return getattr(_std, name)

"""Children's starts and ends in the event log (forklift.event_log)."""

from __future__ import annotations

from forklift import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["log_end", "log_start"]


def log_start(popen: Any, process_obj: Any) -> None:
    """Log that the child was started, and keep its name for its end."""
    if _core.event_log_on():
        popen.logged_name = process_obj.name
        _core.log_child("started", popen.pid, process_obj.name)


def log_end(popen: Any, code: int) -> None:
    """Log how the child has ended."""
    if _core.event_log_on():
        _core.log_end(popen.pid, getattr(popen, "logged_name", ""), code)

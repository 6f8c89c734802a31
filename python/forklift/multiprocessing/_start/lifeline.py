"""Lifelines: a child that serves its parent ends with the parent, even if the parent is killed by SIGKILL.

Daemons (so pools' workers, too), executors' workers, managers' servers and the ranks of ``spawn`` have a
lifeline. All other children survive their parent, as in the standard library. The parent holds a pipe open,
and the kernel kills the child when the pipe is closed. This needs no thread and no polling, and works even if
the child is in a busy loop.
"""

from __future__ import annotations

import sys
from multiprocessing import util as _std_util

from forklift import _core, child_boot
from forklift.multiprocessing._start.executors import is_worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["ProcessWithLifeline", "lifeline_for"]


def _serves(process_obj: Any) -> bool:
    """Tells whether this child has no purpose without its parent."""
    if process_obj.daemon:
        return True
    target = getattr(process_obj, "_target", None)
    if is_worker(target) or getattr(target, "ends_with_parent", False) is True:
        return True
    managers = sys.modules.get("multiprocessing.managers")
    server = getattr(target, "__self__", None)
    return (
        managers is not None
        and isinstance(server, type)
        and issubclass(server, managers.BaseManager)
        and getattr(target, "__name__", None) == "_run_server"
    )


def lifeline_for(process_obj: Any) -> int | None:
    """The lifeline's descriptor for a child that is about to start; None for one that survives its parent."""
    if not _serves(process_obj):
        return None
    try:
        return _core.lifeline()
    except Exception as error:
        _std_util.info("forklift: a daemon without a lifeline: %s", error)
        return None


class ProcessWithLifeline:
    """Stands for a process object in the standard library's fork, and takes the lifeline in the child."""

    def __init__(self, process_obj: Any, read_end: int) -> None:
        self._process_obj = process_obj
        self._read_end = read_end

    def _bootstrap(self, parent_sentinel: int | None = None) -> int:
        child_boot.end_with_parent(self._read_end)
        code: int = self._process_obj._bootstrap(parent_sentinel=parent_sentinel)
        return code

"""Has the standard library start its fork server by a command of ours, and no other interpreter beside it."""

from __future__ import annotations

import threading
from multiprocessing import forkserver as _forkserver
from multiprocessing import util as _std_util

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["STANDARD", "start_standard"]

# How the server's program begins, with the arguments.
STANDARD = "from multiprocessing.forkserver import main; main("


def start_standard(server: Any, replace: Callable[[Any, Any, Any, Any], int]) -> None:
    """``server.ensure_running()``, where `replace` starts the interpreter and returns its pid.

    It gets the function that would have started it, and that function's arguments. The standard library's
    module is changed meanwhile, for this thread only.
    """
    std: Any = _forkserver
    start, tracker = _std_util.spawnv_passfds, std.resource_tracker
    thread = threading.get_ident()

    def start_ours(path: Any, args: Any, passfds: Any) -> int:
        code = args[-1]
        if not (isinstance(code, str) and code.startswith(STANDARD)) or threading.get_ident() != thread:
            return start(path, args, passfds)  # another thread's process
        return replace(start, path, args, passfds)

    later = _TrackerLater(tracker)
    _std_util.spawnv_passfds, std.resource_tracker = start_ours, later
    try:
        server.ensure_running()
    finally:
        if _std_util.spawnv_passfds is start_ours:
            _std_util.spawnv_passfds = start
        if std.resource_tracker is later:
            std.resource_tracker = tracker


class _TrackerLater:
    """``multiprocessing.resource_tracker``, but a thread that starts the server starts no tracker before it.

    The tracker is an interpreter as well, which would take a processor from the server's while that starts.
    The request, which carries the tracker's descriptor, starts it.
    """

    def __init__(self, module: Any) -> None:
        self._module = module
        self._thread = threading.get_ident()

    def ensure_running(self) -> None:
        if threading.get_ident() != self._thread:
            self._module.ensure_running()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)

"""What the fork server's parent tells it to import: Forklift's own modules, and the program's.

The server's interpreter starts meanwhile.
"""

from __future__ import annotations

import socket
import sys
from multiprocessing import forkserver as _std

from forklift import child_boot
from forklift.multiprocessing._start.main_imports import main_imports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

__all__ = ["send_plan"]

# Without these each child would import the modules itself. None makes a domain, a thread or a descriptor.
_OWN = ("forklift.multiprocessing.context",)
# Where this process does not use them, the server imports them before its second child: the first one shall
# not wait for them.
_LATER = ("forklift._core", "forklift.multiprocessing.queues", "forklift.multiprocessing.synchronize")
_SHARED = ("forklift.multiprocessing.", "forklift.adapters.", "forklift.reducers")


def send_plan(to: socket.socket, left_out: Collection[str], preloads: bool) -> None:
    """Send the server its plan, which zygote_server.main describes, and close the socket.

    `left_out`: modules that it must not import. `preloads`: whether it imports any of the program's.
    """
    import json  # after the server's start, as all that this takes

    with to:
        plan = json.dumps(_plan(left_out, preloads), default=str).encode()
        try:
            to.sendall(plan, socket.MSG_NOSIGNAL)
        except (BrokenPipeError, ConnectionResetError):
            pass  # it has ended, which is seen when it is waited for


def _plan(left_out: Collection[str], preloads: bool) -> dict[str, Any]:
    from multiprocessing import spawn

    data: Any = spawn.get_preparation_data("ignore")
    server: Any = _std._forkserver
    # An empty list is a program's wish that nothing be imported beforehand.
    named = list(server._preload_modules) if preloads else []
    return {
        "own": [*_OWN, *dict.fromkeys(task.__module__ for task in child_boot.tasks()), *_used(named)],
        "later": _LATER,
        "main": main_imports() if named else [],
        "left_out": sorted(left_out if preloads else {*left_out, *server._preload_modules}),
        "main_path": data.get("init_main_from_path"),
        "sys_path": data["sys_path"],
        "sys_argv": list(sys.argv),
    }


def _used(named: list[str]) -> list[str]:
    """The modules of Forklift that this process uses: its children are likely to use them, too."""
    # Private ones come with them, in an order in which they can be imported.
    return [name for name in sys.modules if name.startswith(_SHARED) and "._" not in name] if named else []

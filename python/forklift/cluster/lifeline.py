"""Ends an actor's process on a node that is of no use any more: its raylet has ended, or the network is cut.

Ray leaves an actor running whose raylet was killed. And a raylet that is cut off from the cluster may not
notice it for many minutes, while the cluster declares its node dead and runs the tasks elsewhere.
"""

from __future__ import annotations

import os
import select
import socket
import threading
import time

__all__ = ["hold"]

# The variable of the environment that says for how long the head may be out of reach, in seconds.
_VARIABLE = "FORKLIFT_RAY_SILENCE"
# By default, as long as a raylet takes that notices it (gcs_rpc_server_reconnect_timeout_s).
_SILENCE = 60.0


def hold(raylet: int, head: str) -> None:
    """End this process when the process `raylet` has ended, or when `head` cannot be reached.

    ``head``: host and port of the cluster's head, as Ray's runtime context names them.
    """
    handle = os.pidfd_open(raylet) if raylet != 1 else -1
    silence = float(os.environ.get(_VARIABLE) or _SILENCE)
    arguments = (handle, head, silence)
    threading.Thread(target=_watch, args=arguments, name="NodeAgentLifeline", daemon=True).start()


def _watch(handle: int, head: str, silence: float) -> None:
    poll = select.poll()
    if handle >= 0:
        poll.register(handle, select.POLLIN)
    seen = time.monotonic()
    while not poll.poll(1000 * silence / 4):
        if _reaches(head, silence / 4):
            seen = time.monotonic()
        elif time.monotonic() - seen > silence:
            break
    os._exit(1)  # the workers end with this process


def _reaches(head: str, seconds: float) -> bool:
    host, _, port = head.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), seconds).close()
    except OSError:
        return False
    return True

"""The agent of a node whose only rank is the driver: a child process, reached through a pair of sockets.

It is no part of the driver's process, so that workers start from a process without MPI and without the
program's main module, and a busy driver does not hold up its workers. It ends when the driver has ended.
"""

from __future__ import annotations

import os
import queue
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from forklift.cluster.mpi.calls import Caller, Link
from forklift.cluster.mpi.hosting import Host, settle_in, without_launcher
from forklift.cluster.mpi.layout import Node
from forklift.cluster.mpi.parcels import opened, room_for, sizes_in

__all__ = ["main", "start_beside"]


class _Stream:
    """Messages through a socket. `post` is for any thread, and never waits."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._connection = Connection(os.dup(end.fileno()))
        self._posted: queue.SimpleQueue[list[Any] | None] = queue.SimpleQueue()
        threading.Thread(target=self._write, name="MPIBesideWriter", daemon=True).start()

    def post(self, parts: list[Any]) -> None:
        self._posted.put(parts)

    def _write(self) -> None:
        try:
            while (parts := self._posted.get()) is not None:
                for part in parts:
                    self._connection.send_bytes(part)
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # the other process has ended, which the reader notices

    def read(self, came: Callable[[Any], None]) -> None:
        """Call `came` with each message, until the other process has ended or closed its stream."""
        try:
            while True:
                head = self._connection.recv_bytes()
                buffers = [room_for(size) for size in sizes_in(head)]
                for each in buffers:
                    self._connection.recv_bytes_into(each)
                came(opened(head, buffers))
        except (EOFError, OSError):
            pass
        self._posted.put(None)
        self._connection.close()

    def close(self) -> None:
        """Let the other process come to the end of the stream when all is sent."""
        self._posted.put(None)


def start_beside(node: Node) -> Link:
    """Start an agent for a new pool. It ends when the link is killed, or this process has ended."""
    ours, theirs = socket.socketpair()
    with theirs:
        child = subprocess.Popen(
            [
                sys.executable,
                "-c",
                "from forklift.cluster.mpi.beside import main; main()",
                str(theirs.fileno()),
            ],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            env={**without_launcher(dict(os.environ)), "PYTHONPATH": _search_path()},
        )
    stream = _Stream(ours)
    caller = Caller(stream.post)

    def read() -> None:
        stream.read(caller.answered)
        caller.lose(
            ConnectionError(f"the agent beside the driver on {node.host} (process {child.pid}) ended")
        )
        child.wait()

    threading.Thread(target=read, name="MPIBeside", daemon=True).start()
    return Link(caller, stream.close)


def _search_path() -> str:
    """Where the child finds Forklift: as this process does."""
    return os.pathsep.join(path for path in sys.path if path)


def main() -> None:
    """What the child does."""
    signal.signal(signal.SIGINT, lambda *_: None)  # what follows from it is the driver's business
    settle_in()
    stream = _Stream(socket.socket(fileno=int(sys.argv[1])))
    host = Host(stream.post)
    stream.read(host.called)
    host.close()

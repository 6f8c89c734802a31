"""The one thread of a process that makes MPI calls, while it has something to send or to wait for.

MPI's blocking waits keep a processor busy, so this polls, and sleeps between polls: not at all shortly
after something has come or gone, then for a fiftieth of the time for which nothing has, at most 5 ms. A
message that is to be sent wakes it at once.

Each message is a head and buffers (parcels.py). MPI keeps the order of messages between two ranks, so the
buffers' receives are begun when the head has been read.
"""

from __future__ import annotations

import collections
import queue
import threading
import time
from collections.abc import Callable
from typing import Any

from mpi4py import MPI

from forklift.cluster.mpi.parcels import opened, room_for, sizes_in

__all__ = ["Messenger"]

_HEAD, _BUFFER = 1, 2  # tags
# A message of MPI has at most so many bytes: counts are 32-bit numbers in libraries before MPI 4.
_PIECE = 1 << 30
_SPINS = 10  # polls without a sleep after something has come or gone
_PART = 0.02  # of the time for which nothing has come or gone
_SHORTEST, _LONGEST = 20e-6, 5e-3  # seconds of a sleep


class _Incoming:
    """A message that is being received. The first request is that of the head."""

    __slots__ = ("buffers", "head", "requests")

    def __init__(self, head: bytearray, request: MPI.Request) -> None:
        self.head = head
        self.requests = [request]
        self.buffers: list[Any] | None = None  # None: the head has not come yet


class Messenger:
    """See the module. `came` is called with a rank and its message, in the thread that polls."""

    def __init__(self, comm: MPI.Intracomm, came: Callable[[int, Any], None]) -> None:
        self._comm = comm
        self._came = came
        self._woken = threading.Event()
        self._posted: queue.SimpleQueue[tuple[int, list[Any]]] = queue.SimpleQueue()
        self._leaving: list[tuple[MPI.Request, Any]] = []  # with the memory that is being sent
        self._coming: dict[int, collections.deque[_Incoming]] = {}
        self._status = MPI.Status()
        self._active = time.monotonic()
        self._polls = 0

    def post(self, rank: int, parts: list[Any]) -> None:
        """Send the parts of a message. From any thread; it returns at once."""
        self._posted.put((rank, parts))
        self._woken.set()

    def wake(self) -> None:
        """Let a sleep end."""
        self._woken.set()

    def is_sending(self) -> bool:
        return bool(self._leaving) or not self._posted.empty()

    def is_receiving(self) -> bool:
        """Has the head of a message come whose rest has not? Its buffers are kept until it is whole."""
        return bool(self._coming)

    def step(self) -> None:
        """Poll once, and sleep if nothing came or went. mpi4py.MPI.Exception if the MPI library fails."""
        if self._send() | self._receive() | self._complete():
            self._active, self._polls = time.monotonic(), 0
            return
        self._polls += 1
        if self._polls < _SPINS:
            time.sleep(0)
            return
        quiet = time.monotonic() - self._active
        self._woken.wait(min(max(quiet * _PART, _SHORTEST), _LONGEST))
        self._woken.clear()

    def _send(self) -> bool:
        sent = False
        while not self._posted.empty():
            rank, (head, *buffers) = self._posted.get()
            self._begin_send(head, rank, _HEAD)
            for buffer in buffers:
                for begin in range(0, len(buffer), _PIECE):
                    self._begin_send(buffer[begin : begin + _PIECE], rank, _BUFFER)
            sent = True
        return sent

    def _begin_send(self, memory: Any, rank: int, tag: int) -> None:
        self._leaving.append((self._comm.Isend([memory, MPI.BYTE], rank, tag), memory))

    def _complete(self) -> bool:
        if not self._leaving:
            return False
        before = len(self._leaving)
        self._leaving = [each for each in self._leaving if not each[0].Test()]
        return len(self._leaving) < before

    def _receive(self) -> bool:
        received = False
        while (message := self._comm.Improbe(MPI.ANY_SOURCE, _HEAD, self._status)) is not None:
            head = bytearray(self._status.Get_count(MPI.BYTE))
            incoming = _Incoming(head, message.Irecv([head, MPI.BYTE]))
            self._coming.setdefault(self._status.Get_source(), collections.deque()).append(incoming)
            received = True
        for rank, several in list(self._coming.items()):
            received |= self._receive_from(rank, several)
        return received

    def _receive_from(self, rank: int, several: collections.deque[_Incoming]) -> bool:
        """Go on with the messages of one rank, in their order."""
        received = False
        for each in several:
            if each.buffers is None and MPI.Request.Testall(each.requests):
                self._receive_buffers(rank, each)
                received = True
            if each.buffers is None:
                break  # the next ones' buffers come after those of this one
        while several and several[0].buffers is not None and MPI.Request.Testall(several[0].requests):
            done = several.popleft()
            self._came(rank, opened(done.head, done.buffers or []))
            received = True
        if not several:
            del self._coming[rank]
        return received

    def _receive_buffers(self, rank: int, incoming: _Incoming) -> None:
        incoming.buffers = [room_for(size) for size in sizes_in(incoming.head)]
        incoming.requests = [
            self._comm.Irecv([buffer[begin : begin + _PIECE], MPI.BYTE], rank, _BUFFER)
            for buffer in incoming.buffers
            for begin in range(0, len(buffer), _PIECE)
        ]

"""``multiprocessing.connection`` with Forklift's pipes, and the standard library's Listener and Client.

    ready = wait([queue, connection, process.sentinel, sock], timeout=1.0)

``Connection`` has the standard library's interface, with the messages in shared memory. Each end keeps a real
descriptor, one of a pair of sockets. The descriptor carries no messages: it wakes waiting processes, and
shows whether the other end is still open. As in the standard library, an end is open while any process has
it, an inherited copy included. So a process that waits at one end learns at once when the last process with
the other end is killed.

``wait`` takes queues in addition to what the standard library's takes. The standard library's own ``wait``,
``select``, ``selectors`` and asyncio take connections and ``queue._reader``, which have a ``fileno()``.
"""

from __future__ import annotations

import io
import os
import time
import types
from collections.abc import Callable, Iterable
from multiprocessing import connection as _std
from multiprocessing import context as _std_context
from multiprocessing import reduction as _reduction
from multiprocessing import resource_sharer as _sharer
from multiprocessing.connection import Client, Listener
from multiprocessing.reduction import ForkingPickler

from forklift import _core
from forklift.generic import Bases
from forklift.multiprocessing._start.invitation import Invitation, invitation_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Client", "Connection", "Listener", "Pipe", "wait"]

# Saved, since install() replaces them. Read from the module's dictionary: after install(), getting these
# attributes from the module would import this module.
_Original: Any = vars(_std)["Connection"]
if TYPE_CHECKING:
    from typing_extensions import TypeVar

    _Send = TypeVar("_Send", contravariant=True, default=Any)
    _Receive = TypeVar("_Receive", covariant=True, default=Any)

    class _ConnectionBases(_core.PipeCore[_Send, _Receive], _std.Connection[_Send, _Receive]): ...
else:
    _Send = _Receive = None
    _ConnectionBases = Bases(_core.PipeCore, _Original)
_Standard: Any = _Original
_core.set_standard_connection(_Standard)
standard_pipe: Any = vars(_std)["Pipe"]
_std_wait: Any = vars(_std)["wait"]

# How long the process that sent a Connection keeps its channels after the receiver has got the descriptor.
_TAKE_OVER_SECONDS = 5.0
_OTHER_DOMAIN = b"of another domain"


class Connection(_ConnectionBases[_Send, _Receive]):
    """One end of a pipe, with the standard library's methods and errors.

    Arrays travel through shared memory, as through a Queue. A sender waits when 64 KB are in transit; a
    larger message waits until the pipe is empty and is then sent as a whole. Several threads and processes
    may use one end. ``Connection(fd)`` on any other descriptor works as the standard library's: it sends its
    data through the descriptor.
    """

    def fileno(self) -> int:
        """The descriptor. It is readable while there is something to receive, but carries no messages."""
        self._check_closed()  # type: ignore[attr-defined]
        if self._native:
            self._make_selectable()
        return int(self._handle)  # type: ignore[arg-type]

    async def arecv(self) -> _Receive:
        """As ``recv``, in a coroutine. If it is cancelled while it waits, it has taken nothing."""
        from forklift.multiprocessing._channels import coroutines  # imports asyncio

        received: _Receive = await coroutines.receive(self)
        return received

    async def asend(self, obj: _Send) -> None:
        """As ``send``, in a coroutine. If it is cancelled while it waits for room, it has sent nothing."""
        from forklift.multiprocessing._channels import coroutines

        await coroutines.send(self, obj)

    def _recv_bytes(self, maxsize: int | None = None) -> Any:
        if not self._native:
            return _Standard._recv_bytes(self, maxsize)
        raw, data = self._take()
        if not raw:
            data = ForkingPickler.dumps(data)
        if maxsize is not None and len(data) > maxsize:
            return None
        buffer = io.BytesIO()
        buffer.write(data)
        return buffer

    def _poll(self, timeout: float | None) -> bool:
        return self._wait(timeout) if self._native else bool(_Standard._poll(self, timeout))

    def _close(self, _close: Callable[[int], None] = os.close) -> None:
        try:
            _close(self._handle)  # type: ignore[arg-type]
        finally:
            self._let_go()

    def __reduce__(self) -> Any:
        return _reduce(self)

    if not TYPE_CHECKING:
        __class_getitem__ = classmethod(types.GenericAlias)


class PipeEnd(Connection[_Send, _Receive]):
    """An end that ``Pipe`` made, with its messages in shared memory.

    It has a class of its own because other packages' picklers (loky's) send a ``Connection`` by its
    descriptor, and the descriptor of such an end carries no messages.
    """


def Pipe(duplex: bool = True) -> tuple[Connection[Any, Any], Connection[Any, Any]]:
    """Two ends of a pipe: each sends and receives, or (receiver, sender) with duplex=False."""
    first, second = PipeEnd.__new__(PipeEnd), PipeEnd.__new__(PipeEnd)
    _core.make_pipe(first, second, duplex)
    return first, second


class _Transit:
    """A Connection inside a message. The sender keeps descriptor and channels until they are fetched."""

    def __init__(self, connection: Connection) -> None:
        kept = _end_with_handle(os.dup(connection._handle), connection.readable, connection.writable)  # type: ignore[arg-type]
        kept._share(connection)

        def send(channel: Any, pid: int) -> None:
            _reduction.send_handle(channel, kept._handle, pid)  # type: ignore[arg-type]
            # Keep the channels here until the receiver has opened them.
            if channel.poll(_TAKE_OVER_SECONDS) and channel.recv_bytes() == _OTHER_DOMAIN:
                _invite(kept, channel, pid)

        self._domain = _core.domain_id()
        self._id = _sharer._resource_sharer.register(send, kept.close)  # type: ignore[attr-defined]

    def fetch(self, ids: Any, readable: bool, writable: bool) -> Connection:
        with _sharer._resource_sharer.get_connection(self._id) as channel:  # type: ignore[attr-defined]
            made = _end_with_handle(_reduction.recv_handle(channel), readable, writable)
            if not _core.has_domain() or _core.domain_id() != self._domain:
                _join(channel)
            made._open(*ids)
            channel.send_bytes(b"")
        return made


def _invite(connection: PipeEnd, channel: Any, pid: int) -> None:
    """Invite a receiver that another package's Popen started without an invitation in its arguments."""
    invitation = Invitation()
    try:
        connection._offer(*invitation.slot)
        for fd in invitation.descriptors():
            _reduction.send_handle(channel, fd, pid)
        channel.send(invitation.slot)
        if channel.poll(_TAKE_OVER_SECONDS):
            channel.recv_bytes()
    finally:
        invitation.close()


def _join(channel: Any) -> None:
    channel.send_bytes(_OTHER_DOMAIN)
    descriptors = [_reduction.recv_handle(channel) for _ in range(3)]
    slot, generation = channel.recv()
    if _core.has_domain():
        for fd in descriptors:
            os.close(fd)
        from forklift.errors import NotAttachedError

        raise NotAttachedError("a connection of another tree of processes, and this one has its own domain")
    _core.join(descriptors[0], descriptors[1], descriptors[2], slot, generation)


def _end_with_handle(handle: int, readable: bool, writable: bool) -> PipeEnd:
    return PipeEnd(handle, readable, writable)


def _rebuild(descriptor: Any, readable: bool, writable: bool) -> Connection:
    return Connection(descriptor.detach(), readable, writable)


def _rebuild_in_child(_joined: None, descriptor: Any, ids: Any, readable: bool, writable: bool) -> Connection:
    made = _end_with_handle(descriptor.detach(), readable, writable)
    made._open(*ids)
    return made


def _rebuild_from_message(transit: _Transit, ids: Any, readable: bool, writable: bool) -> Connection:
    return transit.fetch(ids, readable, writable)


def _reduce(connection: Connection) -> Any:
    connection._check_closed()  # type: ignore[attr-defined]
    directions = (connection.readable, connection.writable)
    if not connection._native:
        return _rebuild, (_reduction.DupFd(connection.fileno()), *directions)
    popen = _std_context.get_spawning_popen()
    if popen is None:
        return _rebuild_from_message, (_Transit(connection), connection._ids(), *directions)
    invitation = invitation_for(popen)
    connection._offer(*invitation.slot)
    descriptor = _reduction.DupFd(connection._handle)  # type: ignore[arg-type]
    return _rebuild_in_child, (invitation, descriptor, connection._ids(), *directions)


for _each in (Connection, PipeEnd):
    _reduction.register(_each, _reduce)


# --- waiting for several


def wait(object_list: Iterable[Any], timeout: float | None = None) -> list[Any]:
    """The objects of the list that are ready, as soon as there is one; [] after timeout seconds.

    Ready are: a connection or a queue with something to receive (or at its end); a process's sentinel once
    the process has ended; any other descriptor, or object with a ``fileno()``, that is readable.
    """
    waited = [_Waited(each) for each in object_list]
    if not any(each.is_ours for each in waited):
        found: list[Any] = _std_wait([each.object for each in waited], timeout)
        return found
    # A queue needs no descriptor to tell that it has a message. If one has, the others are only polled.
    ready = {each for each in waited if each.has_message()}
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        others: Any = [each for each in waited if each not in ready]
        woken: Any = _std_wait(others, 0 if ready else timeout)
        # Another process or thread may have taken the message that caused the wake-up.
        ready.update(each for each in woken if each.is_ready())
        if woken:
            # A thread of Forklift signals a queue's descriptor. So when a process puts a message and ends,
            # its sentinel may be ready before the queue's descriptor: check the queues for messages again.
            ready.update(each for each in waited if each not in ready and each.has_message())
        if deadline is not None:
            timeout = max(0.0, deadline - time.monotonic())
        if ready or (not woken and timeout == 0):
            return [each.object for each in waited if each in ready]


class _Waited:
    """An object in the list of ``wait``."""

    def __init__(self, each: Any) -> None:
        self.object = each
        source = getattr(each, "_queue", each)  # a queue's reader stands for the queue
        self.is_ours = isinstance(source, (_core.QueueBase, _core.PipeCore))
        self._source = source if self.is_ours else each
        if self.is_ours and getattr(source, "_standard", False):
            self._source = source._reader  # of a subclass that uses the standard library's engine

    def fileno(self) -> int:
        if isinstance(self._source, _core.QueueBase):
            return self._source._fileno()
        return self._source if isinstance(self._source, int) else int(self._source.fileno())

    def has_message(self) -> bool:
        return isinstance(self._source, _core.QueueBase) and not self._source.empty()

    def is_ready(self) -> bool:
        if isinstance(self._source, _core.QueueBase):
            return self._source._poll_for(0.0)
        if isinstance(self._source, _core.PipeCore) and self._source._native:
            return self._source._wait(0.0)
        return True


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        return getattr(_std, name)

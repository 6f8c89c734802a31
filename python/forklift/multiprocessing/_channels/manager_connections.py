"""Connects managers and their proxies by pipes in shared memory, if both are in the same domain.

    manager = forklift.multiprocessing.Manager()   # after forklift.install() multiprocessing.Manager(), too
    shared = manager.dict()
    shared["a"] = 1                                # no socket

Servers, proxies and the wire protocol are the standard library's. A server that chooses its own address puts
its domain's number into the address. A client of the same domain connects and authenticates as usual, and
then hands the server one end of a pipe, over which both continue. All other clients (other programs, other
machines, other versions of this package), and servers at an address that the program gave, stay on the
socket.
"""

from __future__ import annotations

import os
import pickle
import struct
from multiprocessing import connection as _std
from multiprocessing import reduction as _reduction

from forklift import _core, child_boot
from forklift.multiprocessing.connection import Connection, Pipe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Client", "Listener", "enable"]

# Requests are pickles, which do not begin with this.
_CHANGE = b"forklift: change over to "
_DONE, _REFUSED = b"forklift: done", b"forklift: refused"
# Index and generation of the channel that the server reads from, and of the one that it writes to.
_NAMES = struct.Struct("=IIII")
# The longest path for a socket's address.
_LONGEST_PATH = 100


def enable() -> None:
    """Make managers and proxies in this process and its children use these classes from now on."""
    from multiprocessing import managers

    theirs: Any = managers
    theirs.listener_client["pickle"] = (Listener, Client)
    child_boot.add_task(enable)


def _mark() -> str:
    return f"-forklift{_core.domain_id():016x}"


class Listener(_std.Listener):
    """The standard library's Listener, except that an address which it chooses itself names its domain."""

    def __init__(
        self, address: Any = None, family: str | None = None, backlog: int = 1, authkey: bytes | None = None
    ) -> None:
        if address is None and family is None:
            marked = _std.arbitrary_address("AF_UNIX") + _mark()  # type: ignore[attr-defined]
            if len(marked) <= _LONGEST_PATH:
                address = marked
        super().__init__(address, family, backlog, authkey)

    def accept(self) -> Any:
        return _retyped(super().accept(), _ServerConnection)


def Client(address: Any, family: str | None = None, authkey: bytes | None = None) -> Any:
    """The standard library's Client, whose connection changes to a pipe when a proxy uses it for calls."""
    connection = _std.Client(address, family, authkey)
    if isinstance(address, str) and _core.has_domain() and address.endswith(_mark()):
        return _retyped(connection, _ClientConnection)
    return connection


def _retyped(connection: Any, kind: type[Connection]) -> Connection:
    handle, connection._handle = connection._handle, None
    return kind(handle)


class _SwitchingConnection(Connection):
    """A connection through a socket that can become one end of a pipe, with the same descriptor."""

    def _become(self, end: Connection) -> None:
        os.dup2(end._handle, self._handle, inheritable=False)  # type: ignore[arg-type]
        self._share(end)
        end.close()


class _ClientConnection(_SwitchingConnection):
    """The client's end until its first request. Only a proxy's connection for calls changes to a pipe."""

    def send(self, obj: Any) -> None:
        self.__class__ = Connection  # type: ignore[assignment]
        if obj[1] == "accept_connection":
            _ClientConnection._change(self)  # it needs no class of its own
        self.send(obj)

    def _change(self) -> None:
        mine, theirs = Pipe()
        reading, writing = theirs._ids()
        assert reading is not None
        assert writing is not None
        with theirs:
            Connection.send_bytes(self, _CHANGE + _NAMES.pack(*reading, *writing))
            _reduction.send_handle(self, theirs._handle, 0)  # type: ignore[arg-type]
            if Connection.recv_bytes(self) != _DONE:
                mine.close()
                return
        _SwitchingConnection._become(self, mine)


class _ServerConnection(_SwitchingConnection):
    """The server's end, until it has received the first request."""

    def recv(self, **_how: Any) -> Any:
        first = self.recv_bytes()
        self.__class__ = Connection  # type: ignore[assignment]
        if not first.startswith(_CHANGE):
            return pickle.loads(first)
        names = _NAMES.unpack(first[len(_CHANGE) :])
        end = Connection(_reduction.recv_handle(self))
        try:
            end._open(names[:2], names[2:])
        except Exception:
            end.close()
            self.send_bytes(_REFUSED)
        else:
            self.send_bytes(_DONE)
            _SwitchingConnection._become(self, end)
        return self.recv()

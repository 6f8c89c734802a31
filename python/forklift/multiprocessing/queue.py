"""The names of ``torch.multiprocessing.queue``. The queues are this package's own."""

from __future__ import annotations

from forklift.multiprocessing.queues import Queue, SimpleQueue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["ConnectionWrapper", "Queue", "SimpleQueue"]


class ConnectionWrapper:
    """A connection whose ``send`` and ``recv`` pass tensors through shared memory.

    Connections do so by themselves, the standard library's once torch has been imported. The class is here
    for programs that use it by name.
    """

    def __init__(self, conn: Any) -> None:
        self.conn = conn

    def send(self, obj: Any) -> None:
        self.conn.send(obj)

    def recv(self) -> Any:
        return self.conn.recv()

    def __getattr__(self, name: str) -> Any:
        if "conn" in self.__dict__:
            return getattr(self.conn, name)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute 'conn'")

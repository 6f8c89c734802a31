"""Objects that each node gets once: which there are, and which the nodes can drop. For any thread."""

from __future__ import annotations

import collections
import threading
from collections.abc import Callable, Iterator
from typing import Any

from forklift.cluster.packing import Packer
from forklift.cluster.segment import SharedObject
from forklift.cluster.wire import Shared

__all__ = ["SharedObjects"]

# Objects of at least so many bytes go through the transport's store.
_STORED = 100_000
# How many frozen objects stay on the nodes for later calls.
_MOST_FROZEN = 64


class SharedObjects:
    """See the module. `store` takes the content of an object over and returns what is sent for it."""

    def __init__(self, store: Callable[[Any], Any], numbers: Iterator[int]) -> None:
        self._store = store
        self._numbers = numbers
        self._lock = threading.Lock()
        self._frozen: dict[int, tuple[Any, SharedObject]] = {}
        self._forgotten: collections.deque[int] = collections.deque()

    def share(self, kind: str, data: bytes, buffers: list[Any]) -> SharedObject:
        """An object that nodes get once; see wire.Shared. It is forgotten when nothing refers to it."""
        content: Any = (data, buffers)
        if len(data) + sum(buffer.raw().nbytes for buffer in buffers) >= _STORED:
            content = self._store(content)
        return SharedObject(Shared(next(self._numbers), kind, content), self._forgotten.append)

    def frozen(self, obj: Any, kind: str, plain: Callable[[], Any]) -> SharedObject:
        """The same for a frozen object, which stays on the nodes for later calls."""
        with self._lock:
            known = self._frozen.get(id(obj))
        if known is not None:
            return known[1]
        made = self.share(kind, *Packer().pack(plain()))
        with self._lock:
            while len(self._frozen) >= _MOST_FROZEN:
                del self._frozen[next(iter(self._frozen))]
            self._frozen[id(obj)] = (obj, made)
        return made

    def take_forgotten(self) -> list[int]:
        """The numbers of the objects that were forgotten since the last call."""
        return [self._forgotten.popleft() for _ in range(len(self._forgotten))]

"""Packs objects for other nodes: a pickle, and beside it the large buffers, which are copied once each.

Functions and classes of the main module, lambdas and closures travel by value (cloudpickle); everything else
travels as pickle sends it. Numbers, strings and None need no packing: they travel as they are.

Both the driver and the workers import this module, so it does not import ray.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from typing import Any

import cloudpickle  # type: ignore[import-untyped,unused-ignore]

from forklift import _core

__all__ = ["LARGE", "PLAIN", "Packer", "all_plain", "array_of", "in_arena", "unpack"]

# Buffers of at least this many bytes travel beside the pickle.
LARGE = 16 << 10
# The types of objects that travel as they are. Not bytes, which stand for a pickle.
PLAIN = frozenset({int, float, bool, str, type(None)})


def all_plain(items: Any) -> bool:
    """Tells whether all objects of a list or tuple travel as they are."""
    return PLAIN.issuperset(map(type, items))


class Packer(cloudpickle.Pickler):  # type: ignore[misc]
    """Packs one object after another; a thread has its own.

    ``find`` is asked for each object that is no plain one: the call that makes the object on the other side,
    as ``__reduce__`` returns it, or None for the usual way.
    """

    def __init__(self, find: Callable[[Any], Any] | None = None) -> None:
        self._file = io.BytesIO()
        self._buffers: list[Any] = []
        self._find = find
        super().__init__(self._file, protocol=5, buffer_callback=self._take)

    def pack(self, obj: Any) -> tuple[bytes, list[Any]]:
        """The pickle of an object, and its large buffers. Raises whatever pickling raises."""
        try:
            self.dump(obj)
            return self._file.getvalue(), self._buffers
        finally:
            self._file.seek(0)
            self._file.truncate()
            self._buffers = []
            self.clear_memo()
            self.globals_ref.clear()

    def _take(self, buffer: Any) -> bool:
        """Called for each buffer. True: it stays in the pickle."""
        if buffer.raw().nbytes < LARGE:
            return True
        self._buffers.append(buffer)
        return False

    def reducer_override(self, obj: Any) -> Any:
        if self._find is not None:
            found = self._find(obj)
            if found is not None:
                return found
        return super().reducer_override(obj)


def unpack(data: Any, buffers: Any = ()) -> Any:
    """The object of a pickle and its buffers. It is writable where the buffers are."""
    return pickle.loads(data, buffers=buffers)


def array_of(buffer: Any) -> Any:
    """The bytes of a buffer as a NumPy array, which Forklift sends through shared memory."""
    import numpy as np

    return np.frombuffer(buffer, np.uint8)


def in_arena(buffer: Any) -> Any:
    """A private, writable copy of a buffer, in memory that is recycled rather than mapped anew."""
    import numpy as np

    source = np.frombuffer(buffer, np.uint8)
    copy: Any = np.ndarray(source.shape, np.uint8, _core.allocate(source.nbytes, 0, False))
    copy[...] = source
    return copy

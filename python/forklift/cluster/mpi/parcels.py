"""Messages between the driver and its agents: a pickle, and large buffers beside it, which are not copied.

A message is a head (the buffers' sizes and the pickle) and the buffers. The receiver puts each buffer into
fresh memory of the node's arena, which goes to workers, or into results, as it is.
"""

from __future__ import annotations

import pickle
import struct
from typing import Any

from forklift import _core
from forklift.cluster.packing import LARGE

__all__ = ["opened", "packed", "room_for", "sizes_in"]

_COUNT = struct.Struct("<q")


def packed(message: Any) -> list[Any]:
    """The parts of a message: its head, then its large buffers, as they are. Raises what pickling raises."""
    buffers: list[Any] = []

    def take(buffer: pickle.PickleBuffer) -> bool:
        """Called for each buffer. True: it stays in the pickle."""
        with buffer.raw() as view:
            if view.nbytes < LARGE:
                return True
        buffers.append(buffer.raw())
        return False

    data = pickle.dumps(message, protocol=5, buffer_callback=take)
    sizes = struct.pack(f"<{len(buffers)}q", *[each.nbytes for each in buffers])
    return [b"".join((_COUNT.pack(len(buffers)), sizes, data)), *buffers]


def sizes_in(head: Any) -> list[int]:
    """The sizes of the buffers that follow a head."""
    (count,) = _COUNT.unpack_from(head)
    return list(struct.unpack_from(f"<{count}q", head, _COUNT.size))


def room_for(size: int) -> Any:
    """Memory for a buffer, as a writable array of bytes: of the arena, or of the heap if that has no room."""
    import numpy as np

    try:
        return np.ndarray((size,), np.uint8, _core.allocate(size, 0, False))
    except MemoryError:
        return np.empty((size,), np.uint8)


def opened(head: Any, buffers: list[Any]) -> Any:
    """The message of a head and its buffers."""
    (count,) = _COUNT.unpack_from(head)
    return pickle.loads(memoryview(head)[_COUNT.size * (1 + count) :], buffers=buffers)

"""Messages between the driver and its agents: a pickle, and large buffers beside it, which are not copied.

A message is a head and buffers. The head has the buffers' sizes, and the pickle unless that is large: then
it is the first buffer. The receiver puts each buffer into fresh memory of the node's arena, which goes to
workers, or into results, as it is.
"""

from __future__ import annotations

import pickle
import struct
from typing import Any

from forklift import _core
from forklift.cluster.packing import LARGE

__all__ = ["opened", "packed", "room_for", "sizes_in"]

# A pickle of more bytes is a buffer of its own: messages of MPI with more than 2 GiB have to be cut.
_LARGE_PICKLE = 1 << 20
_BEGIN = struct.Struct("<q?7x")  # the number of buffers, and whether the first one is the pickle


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
    apart = len(data) > _LARGE_PICKLE
    if apart:
        buffers.insert(0, memoryview(data))
    sizes = struct.pack(f"<{len(buffers)}q", *[each.nbytes for each in buffers])
    head = b"".join((_BEGIN.pack(len(buffers), apart), sizes, b"" if apart else data))
    return [head, *buffers]


def sizes_in(head: Any) -> list[int]:
    """The sizes of the buffers that follow a head."""
    count, _ = _BEGIN.unpack_from(head)
    return list(struct.unpack_from(f"<{count}q", head, _BEGIN.size))


def room_for(size: int) -> Any:
    """Memory for a buffer, as a writable array of bytes: of the arena, or of the heap if that has no room."""
    import numpy as np

    try:
        return np.ndarray((size,), np.uint8, _core.allocate(size, 0, False))
    except MemoryError:
        return np.empty((size,), np.uint8)


def opened(head: Any, buffers: list[Any]) -> Any:
    """The message of a head and its buffers."""
    count, apart = _BEGIN.unpack_from(head)
    if apart:
        return pickle.loads(buffers[0], buffers=buffers[1:])
    return pickle.loads(memoryview(head)[_BEGIN.size + 8 * count :], buffers=buffers)

"""Memory for shared ctypes objects: blocks of the arena instead of files in ``/dev/shm``.

    wrapper = BufferWrapper(1024)             # 1024 bytes of zeros
    view = wrapper.create_memoryview()

The memory is freed when the last process has dropped it. ``Heap`` and ``Arena`` are the standard library's,
for programs that use these names; Forklift does not use them.
"""

from __future__ import annotations

import sys
from multiprocessing import heap as _std
from multiprocessing.heap import Arena, Heap

from forklift import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Arena", "BufferWrapper", "Heap"]


def allocate(size: int) -> _core.Block:
    """Zeroed memory of `size` bytes; ValueError and OverflowError for sizes that are none."""
    if size < 0:
        raise ValueError(f"Size {size:n} out of range")
    if sys.maxsize <= size:
        raise OverflowError(f"Size {size:n} too large")
    return _core.allocate(size, 0)


class BufferWrapper:
    """Shared, zeroed memory of `size` bytes; forked children inherit it, others get it as an argument."""

    _heap = Heap()  # stays empty; programs read this name

    def __init__(self, size: int) -> None:
        self._block = allocate(size)

    def create_memoryview(self) -> memoryview:
        """A writable view of the whole memory, which keeps it alive."""
        return memoryview(self._block)


def __getattr__(name: str) -> Any:
    return getattr(_std, name)

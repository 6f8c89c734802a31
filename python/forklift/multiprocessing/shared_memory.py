"""``SharedMemory`` and ``ShareableList``: a process that only attaches never removes the segment at its end.

In the standard library a process that attaches registers the segment with its own resource tracker. If that
is not the creator's tracker (the two programs did not start each other), the segment is removed as soon as
the attached process ends. Here only the creator's tracker knows the segment. ``track=`` of Python 3.13, if
given, keeps its meaning.
"""

from __future__ import annotations

import _posixshmem  # type: ignore[import-not-found,unused-ignore]
import functools
import mmap
import os
import types
from multiprocessing import resource_tracker
from multiprocessing import shared_memory as _std
from typing import Any

__all__ = ["ShareableList", "SharedMemory"]

# Saved, since forklift.install() replaces it.
_Standard: Any = _std.SharedMemory
_KIND = "shared_memory"


class SharedMemory(_std.SharedMemory):
    """A segment of shared memory: creates one, or attaches to one by its name."""

    _fd: int
    _flags: int
    _mode: int
    _mmap: mmap.mmap | None
    _buf: memoryview | None
    _attached = False  # True: attached without the resource tracker's knowledge

    @functools.wraps(_Standard.__init__)  # type: ignore[misc]
    def __init__(self, name: str | None = None, create: bool = False, size: int = 0, **track: Any) -> None:
        # The standard library does everything but a plain attachment, and refuses wrong arguments.
        if create or name is None or size < 0 or track or self._flags & os.O_CREAT:
            _Standard.__init__(self, name, create, size, **track)
            return
        self._attached = True
        self._track = False
        own_name = "/" + name if self._prepend_leading_slash else name  # type: ignore[attr-defined]
        self._fd = _posixshmem.shm_open(own_name, self._flags, mode=self._mode)
        self._name = own_name
        self._size = os.fstat(self._fd).st_size
        self._mmap = mmap.mmap(self._fd, self._size)
        self._buf = memoryview(self._mmap)

    def unlink(self) -> None:
        """Remove the name. The memory is freed when the last attached process has closed it."""
        if not self._attached:
            _Standard.unlink(self)
            return
        name: str = self._name
        _posixshmem.shm_unlink(name)
        # Remove the creator's entry, if this process has the creator's tracker. Any other tracker must be
        # told the name first, since it can only forget a name that it knows.
        resource_tracker.register(name, _KIND)
        resource_tracker.unregister(name, _KIND)


class ShareableList(_std.ShareableList[Any]):
    """A list of numbers, strings, bytes and None in shared memory, of a fixed length."""

    # The standard library's own __init__, in which the name SharedMemory means the class above.
    __init__ = types.FunctionType(
        _std.ShareableList.__init__.__code__,
        {**vars(_std), "SharedMemory": SharedMemory},
        "__init__",
        _std.ShareableList.__init__.__defaults__,
    )
    __init__.__kwdefaults__ = _std.ShareableList.__init__.__kwdefaults__


def __getattr__(name: str) -> Any:
    return getattr(_std, name)

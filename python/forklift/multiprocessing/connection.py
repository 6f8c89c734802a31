"""``multiprocessing.connection`` with our pipes; ``Listener`` and ``Client`` are the standard library's.

    ready = wait([queue, connection, process.sentinel, sock], timeout=1.0)

``wait`` takes what the standard library's takes, and queues. The standard library's own ``wait``, ``select``,
``selectors`` and asyncio take connections and ``queue._reader``: all of these have a ``fileno()``.
"""

from __future__ import annotations

import multiprocessing.connection as _std
import time
from collections.abc import Iterable
from multiprocessing.connection import Client, Listener

from forklift import _core
from forklift.multiprocessing.pipes import Connection, Pipe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Client", "Connection", "Listener", "Pipe", "wait"]

_std_wait = _std.wait  # saved, since install() puts ours in its place


def wait(object_list: Iterable[Any], timeout: float | None = None) -> list[Any]:
    """The objects of the list that are ready to be read, once there is one or the time is over.

    Ready: a connection or a queue with something to receive (or at its end), a process's sentinel once the
    process has ended, any other descriptor, or object with a ``fileno()``, that is readable.
    """
    waited = [_Waited(each) for each in object_list]
    if not any(each.is_ours for each in waited):
        return _std_wait([each.object for each in waited], timeout)
    # What has a message shows it without a descriptor; the others are then only looked at.
    ready = {each for each in waited if each.has_message()}
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        others: Any = [each for each in waited if each not in ready]
        woken: Any = _std_wait(others, 0 if ready else timeout)
        # Somebody else may have taken the message that had woken us.
        ready.update(each for each in woken if each.is_ready())
        if woken:
            # A queue's descriptor is rung by a thread of ours: who put a message and ended may be seen to
            # have ended first, and must not be taken for one who ended without a word.
            ready.update(each for each in waited if each not in ready and each.has_message())
        if deadline is not None:
            timeout = max(0.0, deadline - time.monotonic())
        if ready or (not woken and timeout == 0):
            return [each.object for each in waited if each in ready]


class _Waited:
    """An object in a list to be waited for."""

    def __init__(self, each: Any) -> None:
        self.object = each
        source = getattr(each, "_queue", each)  # a queue's reader stands for the queue
        self.is_ours = isinstance(source, (_core.QueueBase, _core.PipeCore))
        self._source = source if self.is_ours else each
        if self.is_ours and getattr(source, "_standard", False):
            self._source = source._reader  # a subclass with the standard library's engine

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

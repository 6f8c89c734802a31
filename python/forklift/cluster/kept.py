"""Queues, locks and events that processes on all nodes use: their states in one process, proxies elsewhere.

It is the standard library's ``SyncManager`` over TCP, whose server runs in an actor of Ray's (`keeper.py`) or
a process beside the driver of an MPI job (`mpi/keeper.py`). A
queue's objects are packed, so that the server does not have to know their classes. A lock knows which
connection holds it: when that ends without a release, because its process was killed or its thread has ended,
the lock is free again, and the next one to acquire it gets an AbandonedLockWarning.

Workers and processes import this module, so it imports neither ray nor mpi4py.
"""

from __future__ import annotations

import queue
import threading
import warnings
import weakref
from collections.abc import Callable
from multiprocessing import managers as _std
from typing import Any

import cloudpickle  # type: ignore[import-untyped,unused-ignore]

from forklift.cluster.packing import unpack
from forklift.errors import AbandonedLockWarning

__all__ = ["ClusterManager"]

_thread = threading.local()  # of the server: one for each connection


class _Holdings:
    """The locks that a connection holds; dropped when the thread ends that serves it."""

    def __init__(self) -> None:
        self.locks: set[KeptLock] = set()

    def __del__(self) -> None:
        for lock in list(self.locks):
            lock.abandon()


class KeptLock:
    """A lock in the server. `acquire` returns whether it is held now, and whether its holder was lost."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holder: Any = None
        self._abandoned = False

    def acquire(self, block: bool = True, timeout: float | None = None) -> tuple[bool, bool]:
        wait = -1 if timeout is None else max(timeout, 0)
        if not (self._lock.acquire(timeout=wait) if block else self._lock.acquire(False)):
            return False, False
        holdings = self._holdings()
        holdings.locks.add(self)
        self._holder = weakref.ref(holdings)
        abandoned, self._abandoned = self._abandoned, False
        return True, abandoned

    def _holdings(self) -> _Holdings:
        if not hasattr(_thread, "holdings"):
            _thread.holdings = _Holdings()
        found: _Holdings = _thread.holdings
        return found

    def release(self) -> None:
        if not self._lock.locked():
            raise ValueError("lock released too many times")
        holdings = self._holder() if self._holder is not None else None
        if holdings is not None:
            holdings.locks.discard(self)
        self._holder = None
        self._lock.release()

    def abandon(self) -> None:
        self._abandoned = True
        self._holder = None
        self._lock.release()


class KeptRLock(KeptLock):
    """As KeptLock; its holder may acquire it again, and only its holder releases it."""

    def __init__(self) -> None:
        super().__init__()
        self._count = 0

    def _is_mine(self) -> bool:
        return self._holder is not None and self._holder() is self._holdings()

    def acquire(self, block: bool = True, timeout: float | None = None) -> tuple[bool, bool]:
        if self._is_mine():
            self._count += 1
            return True, False
        ok, abandoned = super().acquire(block, timeout)
        if ok:
            self._count = 1
        return ok, abandoned

    def release(self) -> None:
        if not self._is_mine():
            raise AssertionError("attempt to release recursive lock not owned by thread")
        self._count -= 1
        if self._count == 0:
            super().release()


def _call(proxy: Any, method: str, *arguments: Any) -> Any:
    """Call a method in the server. (The standard library's stubs say that it returns nothing.)"""
    return proxy._callmethod(method, arguments)


class LockProxy(_std.BaseProxy):
    """A lock of the cluster. Methods: acquire, release; a context manager."""

    _exposed_ = ("acquire", "release")

    def acquire(self, block: bool = True, timeout: float | None = None) -> bool:
        """Take the lock; wait at most `timeout` seconds. Tells whether it is held now."""
        ok, abandoned = _call(self, "acquire", block, timeout)
        if abandoned:
            try:
                warnings.warn("a lock's holder was lost", AbandonedLockWarning, stacklevel=2)
            except AbandonedLockWarning:
                self.release()
                raise
        return bool(ok)

    def release(self) -> None:
        """Give the lock back. ValueError if nobody holds it; AssertionError if another one holds an RLock."""
        _call(self, "release")

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_exc: object) -> None:
        self.release()


class QueueProxy(_std.BaseProxy):
    """A queue of the cluster: put, get, qsize, empty, full, task_done, join, close."""

    _exposed_ = ("put", "get", "qsize", "empty", "full", "task_done", "join")

    def put(self, obj: Any, block: bool = True, timeout: float | None = None) -> None:
        """Put an object; wait at most `timeout` seconds for room, then queue.Full."""
        _call(self, "put", cloudpickle.dumps(obj), block, timeout)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Take the oldest object; wait at most `timeout` seconds for one, then queue.Empty."""
        return unpack(_call(self, "get", block, timeout))

    def put_nowait(self, obj: Any) -> None:
        self.put(obj, False)

    def get_nowait(self) -> Any:
        return self.get(False)

    def qsize(self) -> int:
        return int(_call(self, "qsize"))

    def empty(self) -> bool:
        return self.qsize() == 0

    def full(self) -> bool:
        return bool(_call(self, "full"))

    def task_done(self) -> None:
        """Report that an object that was taken is done. ValueError if none is under way."""
        _call(self, "task_done")

    def join(self) -> None:
        """Wait until each object that was put has been reported done."""
        _call(self, "join")

    def close(self) -> None:
        """Do nothing: a put has arrived when it returns. As join_thread and cancel_join_thread."""

    join_thread = cancel_join_thread = close


class ClusterManager(_std.SyncManager):
    """The manager whose server is in a process of its own; ``shutdown`` ends that."""

    _end: Callable[[], object] | None = None

    def is_alive(self) -> bool:
        """Tells whether the server answers."""
        try:
            self._debug_info()  # type: ignore[attr-defined]
        except (OSError, EOFError):
            return False
        return True

    def shutdown(self) -> None:  # type: ignore[override]
        """End the server; the objects and their proxies cannot be used any more."""
        end, self._end = self._end, None
        if end is not None:
            end()

    def __exit__(self, *_exc: object) -> None:
        self.shutdown()

    def __enter__(self) -> ClusterManager:
        return self


ClusterManager.register("Queue", queue.Queue, QueueProxy)
ClusterManager.register("JoinableQueue", queue.Queue, QueueProxy)
ClusterManager.register("Lock", KeptLock, LockProxy)
ClusterManager.register("RLock", KeptRLock, LockProxy)

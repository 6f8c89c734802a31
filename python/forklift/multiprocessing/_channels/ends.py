"""The two ends of a queue, and its locks, under the standard library's private names that packages use.

Pools and executors receive from ``queue._reader``, wait on its descriptor and close ends one by one. Objects
here are thin: they hold the queue and no state of their own.
"""

from __future__ import annotations

import pickle

from forklift.multiprocessing._start.invitation import parent_sentinel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["NoLock", "Reader", "SlotsLeft", "Tasks", "Writer"]


class _End:
    def __init__(self, queue: Any) -> None:
        self._queue = queue

    # Each access makes a new object; all objects for one end are equal: `queue._reader in wait(...)`.
    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._queue is other._queue

    def __hash__(self) -> int:
        return hash((type(self), id(self._queue)))

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        raise NotImplementedError

    @property
    def closed(self) -> bool:
        raise NotImplementedError

    def _check(self) -> None:
        if self.closed:
            raise OSError("handle is closed")

    def _orphan_aware(self) -> None:
        # Only workers close one end. Once their parent is gone, no process uses the other end.
        self._queue._orphan_fd = parent_sentinel()


class Reader(_End):
    """What ``Connection`` offers for reading."""

    readable = True
    writable = False

    def recv(self) -> Any:
        """Take the oldest object, waiting for one. EOFError once the parent is gone, in its workers."""
        self._check()
        return self._queue.get()

    def recv_bytes(self, maxlength: int | None = None) -> bytes:
        data = pickle.dumps(self.recv())
        if maxlength is not None and len(data) > maxlength:
            raise OSError("got a message that is too long")
        return data

    def poll(self, timeout: float | None = 0.0) -> bool:
        """Is there something to get within `timeout` seconds (None: wait without end)?"""
        self._check()
        return bool(self._queue._poll_for(timeout))

    def fileno(self) -> int:
        """A descriptor that is readable while the queue is not empty; it belongs to the queue."""
        self._check()
        return int(self._queue._fileno())

    @property
    def closed(self) -> bool:
        return bool(self._queue._reader_closed)

    def close(self) -> None:
        self._queue._reader_closed = True
        self._orphan_aware()


class Writer(_End):
    """What ``Connection`` offers for writing."""

    readable = False
    writable = True

    def send(self, obj: Any) -> None:
        self._check()
        self._queue.put(obj)

    def send_bytes(self, buf: Any, offset: int = 0, size: int | None = None) -> None:
        """Put the object that a pickle holds."""
        view = memoryview(buf)[offset : None if size is None else offset + size]
        self.send(pickle.loads(view))

    @property
    def closed(self) -> bool:
        return bool(self._queue._writer_closed)

    def close(self) -> None:
        self._queue._writer_closed = True
        self._orphan_aware()


class NoLock:
    """A lock without effect: the queue's ends lock themselves, and survive their holders."""

    def acquire(self, block: bool = True, timeout: float | None = None) -> bool:
        return True

    def release(self) -> None:
        pass

    def __enter__(self) -> bool:
        return True

    def __exit__(self, *_exc: object) -> None:
        pass


class _Value:
    def __init__(self, value: int) -> None:
        self._value = value

    def _get_value(self) -> int:
        return self._value

    def _is_zero(self) -> bool:
        return self._value == 0


class SlotsLeft(NoLock):
    """The semaphore of a bounded queue, to be looked at."""

    def __init__(self, queue: Any) -> None:
        self._semlock = _Value(max(0, queue._maxsize - queue._size()))

    def get_value(self) -> int:
        return self._semlock._get_value()


class Tasks(NoLock):
    """The semaphore that counts a JoinableQueue's unfinished tasks, to be looked at."""

    def __init__(self, queue: Any) -> None:
        self._semlock = _Value(queue._unfinished())

    def get_value(self) -> int:
        return self._semlock._get_value()

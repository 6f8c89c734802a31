"""The two ends of a queue and its locks, which packages use by the standard library's private names.

Pools and executors receive from ``queue._reader``, wait for its descriptor and close each end separately. The
objects here hold the queue and have no state of their own.
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

    # Each access makes a new object. All objects for one end are equal, for `queue._reader in wait(...)`.
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
        # Only workers close one end, and only their parent uses the other: when it is gone, waits must end.
        self._queue._orphan_fd = parent_sentinel()


class Reader(_End):
    """The reading end of a queue, with the reading methods of ``Connection``."""

    readable = True
    writable = False

    def recv(self) -> Any:
        """Take the oldest object, waiting for one. In a worker, EOFError once the parent is gone."""
        self._check()
        return self._queue.get()

    def recv_bytes(self, maxlength: int | None = None) -> bytes:
        data = pickle.dumps(self.recv())
        if maxlength is not None and len(data) > maxlength:
            raise OSError("got a message that is too long")
        return data

    def poll(self, timeout: float | None = 0.0) -> bool:
        """Wait until there is something to get, at most `timeout` seconds (None: without end)."""
        self._check()
        return bool(self._queue._poll_for(timeout))

    def fileno(self) -> int:
        """A descriptor that is readable while the queue is not empty. It belongs to the queue."""
        self._check()
        return int(self._queue._fileno())

    @property
    def closed(self) -> bool:
        return bool(self._queue._reader_closed)

    def close(self) -> None:
        self._queue._reader_closed = True
        self._orphan_aware()


class Writer(_End):
    """The writing end of a queue, with the writing methods of ``Connection``."""

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
    """A lock without effect: the core locks a queue's ends itself, and its locks survive their holders."""

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
    """Stands for the semaphore of a bounded queue, for reading only."""

    def __init__(self, queue: Any) -> None:
        self._semlock = _Value(max(0, queue._maxsize - queue._size()))

    def get_value(self) -> int:
        return self._semlock._get_value()


class Tasks(NoLock):
    """Stands for the semaphore that counts a JoinableQueue's unfinished tasks, for reading only."""

    def __init__(self, queue: Any) -> None:
        self._semlock = _Value(queue._unfinished())

    def get_value(self) -> int:
        return self._semlock._get_value()

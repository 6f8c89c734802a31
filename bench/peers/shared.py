"""Bare shared memory: what carrying a message costs without any promise.

`Spinning` is the floor of rows: its ends take turns, each on a processor of its own, and wait in a spin lock
of the C library (decisions/0319). With posix_ipc's semaphores `Sleeping` sleeps. Either has room for one
array, which is read in place, and neither could tell a process that died from one that is slow.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import pickle
from typing import Any

from peers.exchange import End, Link

SLOTS = 1024
SLOT = 64  # bytes
PROCESS_SHARED = 1


class Memory:
    """One direction: slots for small messages, and room for an array."""

    def __init__(self, nbytes: int) -> None:
        self.ring = mmap.mmap(-1, SLOTS * SLOT)
        self.room = mmap.mmap(-1, max(nbytes, 1))

    def array(self) -> Any:
        import numpy as np

        return np.frombuffer(self.room, np.float32)


class Turn(Memory):
    """One direction with a spin lock that the writer opens and the reader closes."""

    def __init__(self, nbytes: int) -> None:
        super().__init__(nbytes)
        self.numbers = memoryview(self.ring).cast("Q")
        self._word = ctypes.c_int.from_buffer(mmap.mmap(-1, mmap.PAGESIZE))
        self.lock = ctypes.c_void_p(ctypes.addressof(self._word))
        # It keeps the interpreter's lock: there is no other thread that it would be given to.
        self.library = ctypes.PyDLL(None)
        self.library.pthread_spin_init(self.lock, PROCESS_SHARED)
        self.library.pthread_spin_lock(self.lock)


class SpinningEnd(End):
    """Numbers, not pickled, one at a time."""

    def __init__(self, out: Turn, come: Turn) -> None:
        self._out, self._in = out, come
        self._open = out.library.pthread_spin_unlock
        self._close = come.library.pthread_spin_lock

    def put(self, item: int) -> None:
        self._out.numbers[0] = item
        self._open(self._out.lock)

    def get(self) -> int:
        self._close(self._in.lock)
        return self._in.numbers[0]

    def put_array(self, array: Any) -> None:
        self._out.array()[:] = array
        self._open(self._out.lock)

    def read_array(self) -> float:
        self._close(self._in.lock)
        return float(self._in.array().sum())


class Spinning(Link):
    """Two ends that spin on one processor would wait for its slices, so each is bound to its own."""

    def __init__(self, nbytes: int) -> None:
        self._directions = Turn(nbytes), Turn(0)
        self._before = os.sched_getaffinity(0)

    def end(self, side: int) -> End:
        processors = sorted(self._before)
        os.sched_setaffinity(0, {processors[side % len(processors)]})
        return SpinningEnd(self._directions[side], self._directions[1 - side])

    def close(self) -> None:
        os.sched_setaffinity(0, self._before)


class Semaphores(Memory):
    """One direction with its semaphores. The names go at once; the processes keep what they have open."""

    def __init__(self, nbytes: int, name: str) -> None:
        import posix_ipc

        super().__init__(nbytes)
        self.filled, self.free, self.arrived = (
            posix_ipc.Semaphore(f"/{name}-{part}", posix_ipc.O_CREX, initial_value=initial)
            for part, initial in (("filled", 0), ("free", SLOTS), ("arrived", 0))
        )
        for semaphore in (self.filled, self.free, self.arrived):
            semaphore.unlink()


class SleepingEnd(End):
    """Pickled ints in a ring."""

    def __init__(self, out: Semaphores, come: Semaphores) -> None:
        self._out, self._in = out, come
        self._written = self._read = 0

    def put(self, item: int) -> None:
        data = pickle.dumps(item)
        self._out.free.acquire()
        at = self._written % SLOTS * SLOT
        ring = self._out.ring
        ring[at] = len(data)
        ring[at + 1 : at + 1 + len(data)] = data
        self._written += 1
        self._out.filled.release()

    def get(self) -> int:
        self._in.filled.acquire()
        at = self._read % SLOTS * SLOT
        ring = self._in.ring
        data = ring[at + 1 : at + 1 + ring[at]]
        self._read += 1
        self._in.free.release()
        item: int = pickle.loads(data)
        return item

    def put_array(self, array: Any) -> None:
        self._out.array()[:] = array
        self._out.arrived.release()

    def read_array(self) -> float:
        self._in.arrived.acquire()
        return float(self._in.array().sum())


class Sleeping(Link):
    def __init__(self, nbytes: int) -> None:
        name = f"forklift-bench-{os.getpid()}"
        self._directions = Semaphores(nbytes, f"{name}-there"), Semaphores(0, f"{name}-back")

    def end(self, side: int) -> End:
        return SleepingEnd(self._directions[side], self._directions[1 - side])

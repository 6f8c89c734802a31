"""Bare shared memory: what carrying a message costs without any promise. It is the floor of the rows.

`Spinning` waits by looking at counters, with posix_ipc's semaphores `Sleeping` sleeps. Both have room for one
array, which is read in place, and nobody could tell a process that died from one that is slow. The counters
rely on stores that are seen in order, as x86-64 promises and as a call of Python's between them makes likely
elsewhere.
"""

from __future__ import annotations

import mmap
import os
import pickle
from typing import Any

from peers.exchange import End, Link

SLOTS = 1024
SLOT = 64  # bytes
LINE = 8  # words: each counter has a cache line of its own


class Memory:
    """One direction: a ring of slots for small messages, and room for an array."""

    def __init__(self, nbytes: int) -> None:
        self.ring = mmap.mmap(-1, SLOTS * SLOT)
        self.counters = memoryview(mmap.mmap(-1, mmap.PAGESIZE)).cast("Q")
        self.room = mmap.mmap(-1, max(nbytes, 1))

    def array(self) -> Any:
        import numpy as np

        return np.frombuffer(self.room, np.float32)


class SpinningEnd(End):
    """Numbers, not pickled; what is written is counted by the writer, what is read by the reader."""

    def __init__(self, out: Memory, come: Memory) -> None:
        self._out, self._in = out.counters, come.counters
        self._slots_out = memoryview(out.ring).cast("Q")
        self._slots_in = memoryview(come.ring).cast("Q")
        self._out_room, self._in_room = out, come
        self._written = self._read = 0  # by this side, in either direction

    def put(self, item: int) -> None:
        number = self._written
        while number - self._out[LINE] >= SLOTS:
            pass
        self._slots_out[number % SLOTS * (SLOT // 8)] = item
        self._out[0] = self._written = number + 1

    def get(self) -> int:
        number = self._read
        while self._in[0] == number:
            pass
        item = self._slots_in[number % SLOTS * (SLOT // 8)]
        self._in[LINE] = self._read = number + 1
        return item

    def put_array(self, array: Any) -> None:
        self._out_room.array()[:] = array
        self.put(1)

    def read_array(self) -> float:
        self.get()
        return float(self._in_room.array().sum())


class Spinning(Link):
    def __init__(self, nbytes: int) -> None:
        self._ways = Memory(nbytes), Memory(0)

    def end(self, side: int) -> End:
        return SpinningEnd(self._ways[side], self._ways[1 - side])


class Way(Memory):
    """One direction with semaphores. The names go at once; the processes keep what they have open."""

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

    def __init__(self, out: Way, come: Way) -> None:
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
        self._ways = Way(nbytes, f"{name}-there"), Way(0, f"{name}-back")

    def end(self, side: int) -> End:
        return SleepingEnd(self._ways[side], self._ways[1 - side])

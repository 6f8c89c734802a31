"""faster-fifo: a queue of pickled objects in a block of shared memory, one or a hundred at a call."""

from __future__ import annotations

from typing import Any

from peers.exchange import PATIENCE_S, End, Link

BATCH = 100
RING = 1 << 20
TIMEOUT = float(PATIENCE_S)


class FifoEnd(End):
    def __init__(self, out: Any, come: Any) -> None:
        self._out, self._in = out, come

    def put(self, item: int) -> None:
        self._out.put(item, timeout=TIMEOUT)

    def get(self) -> int:
        item: int = self._in.get(timeout=TIMEOUT)
        return item

    def put_array(self, array: Any) -> None:
        self._out.put(array, timeout=TIMEOUT)

    def read_array(self) -> float:
        return float(self._in.get(timeout=TIMEOUT).sum())


class BatchEnd(FifoEnd):
    """The flow goes a hundred at a call."""

    def put_many(self, count: int) -> None:
        for first in range(0, count, BATCH):
            self._out.put_many(list(range(first, min(first + BATCH, count))), timeout=TIMEOUT)

    def get_many(self, count: int) -> None:
        while count:
            count -= len(self._in.get_many(max_messages_to_get=min(count, BATCH), timeout=TIMEOUT))


class Fifo(Link):
    kind: type[FifoEnd] = FifoEnd

    def __init__(self, nbytes: int) -> None:
        import faster_fifo

        there, back = (faster_fifo.Queue(max_size_bytes=RING + size) for size in (2 * nbytes, 0))
        self._queues = there, back

    def end(self, side: int) -> End:
        return self.kind(self._queues[side], self._queues[1 - side])


class Batches(Fifo):
    kind = BatchEnd

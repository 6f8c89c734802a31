"""NumPy arrays through a queue: put, received, every element read, one byte sent back.

The array is made beforehand. The measured time is from the put to the arrival of the byte, which comes
through a Pipe of the same library. The floor is the same between two processes by bare shared memory: one
copy into it, the same read in place, and both ends spin, so that what the distance of two cores costs is in
it (decisions/0319).
"""

from __future__ import annotations

import statistics
import time
from typing import Any

from peers.exchange import SETTLE_S

from rows import others
from rows.spec import Library, Row, Scale

# From the second transfer on, the memory that the first one freed is reused.
WARM_UP = 2


def _read(queue: Any, ack: Any, count: int) -> None:
    while queue.get() is not None:
        ack.send_bytes(b"x")
    for _ in range(count):
        array = queue.get()
        if array.sum() != array.size:
            raise ValueError("the array arrived changed")
        ack.send_bytes(b"x")
        del array


def _array(nbytes: int) -> Any:
    import numpy as np

    # Ones, because their float32 sums are exact, so that the reader can check what it reads. Large sums are
    # exact thanks to NumPy's pairwise summation.
    return np.ones(nbytes // 4, np.float32)


def _transfer_us(library: Library, nbytes: int, count: int) -> float:
    context = library.context()
    array = _array(nbytes)
    queue = context.Queue()
    heard, ack = context.Pipe()
    reader = context.Process(target=_read, args=(queue, ack, WARM_UP + count))
    reader.start()
    until = time.perf_counter() + SETTLE_S
    while time.perf_counter() < until:
        queue.put(5)
        heard.recv_bytes()
    queue.put(None)
    times = []
    for i in range(-WARM_UP, count):
        begin = time.perf_counter()
        queue.put(array)
        heard.recv_bytes()
        if i >= 0:
            times.append(time.perf_counter() - begin)
    reader.join()
    if reader.exitcode != 0:
        raise RuntimeError(f"the reader ended with {reader.exitcode}")
    return statistics.median(times) * 1e6


# The number of measurements at each size is bounded by how long the peer takes.
SIZES = (
    ("4K", 4 << 10, 1_000, 6),
    ("64K", 64 << 10, 1_000, 6),
    ("1M", 1 << 20, 200, 5),
    ("16M", 16 << 20, 10, 20),
    ("256M", 256 << 20, 3, 25),
)


def _row(name: str, nbytes: int, count: int, goal: float) -> Row:
    def times(scale: Scale) -> int:
        return scale.count(count, min(count, 3))

    def measure(library: Library, scale: Scale) -> float:
        return _transfer_us(library, scale.nbytes(nbytes), times(scale))

    large = nbytes >= 1 << 20
    return Row(
        f"array-{name}",
        "us",
        goal,
        measure=measure,
        others=others.arrays(nbytes, times),
        floor=others.floor("array", times, nbytes),
        floor_name=others.FLOOR_NAME,
        floor_factor=1.5 if large else None,
    )


ROWS = tuple(_row(*size) for size in SIZES)

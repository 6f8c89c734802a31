"""NumPy arrays and bytes through a queue: put, received, every element read, one byte sent back.

What is sent is made beforehand. The measured time is from the put to the arrival of the byte, which comes
through a Pipe of the same library. The floor is the same between two processes by bare shared memory: one
copy into it, the same read in place, and both ends spin, so that what the distance of two cores costs is in
it (decisions/0319).
"""

from __future__ import annotations

import statistics
import time
from typing import Any

from peers.exchange import exchange_until_settled, ones

from rows import others
from rows.spec import STANDARD, Library, Row, Scale

# From the second transfer on, the memory that the first one freed is reused.
WARM_UP = 2


def _read(queue: Any, ack: Any, count: int, how: dict[str, bool] | None) -> None:
    import numpy as np

    while queue.get() is not None:
        ack.send_bytes(b"x")
    for _ in range(count):
        item = queue.get(**(how or {}))
        array = item if how is None else np.frombuffer(item, np.float32)
        if array.sum() != array.size:
            raise ValueError("it arrived changed")
        ack.send_bytes(b"x")
        del array, item


def _transfer_us(library: Library, nbytes: int, count: int, how: dict[str, bool] | None = None) -> float:
    """`how`: bytes are sent, and got with these arguments."""
    context = library.context()
    array = ones(nbytes) if how is None else ones(nbytes).tobytes()
    queue = context.Queue()
    heard, ack = context.Pipe()
    reader = context.Process(target=_read, args=(queue, ack, WARM_UP + count, how))
    reader.start()

    def round_trip() -> None:
        queue.put(5)
        heard.recv_bytes()

    exchange_until_settled(round_trip)
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


BYTES = 16 << 20


def _bytes_row(name: str, note: str, floor_factor: float | None, **how: bool) -> Row:
    def times(scale: Scale) -> int:
        return scale.count(10, 3)

    def measure(library: Library, scale: Scale) -> float:
        # The standard library's queue lends nothing: there it is a plain get.
        return _transfer_us(
            library, scale.nbytes(BYTES), times(scale), {} if library.name == STANDARD else how
        )

    return Row(
        name,
        "us",
        measure=measure,
        floor=others.floor("array", times, BYTES),
        floor_name=others.FLOOR_NAME,
        floor_factor=floor_factor,
        note=note,
    )


ROWS = (
    *(_row(*size) for size in SIZES),
    _bytes_row("bytes-16M", "bytes, copied on receipt, every element read", None),
    _bytes_row("bytes-lent-16M", "bytes, get(copy=False), every element read", 1.5, copy=False),
)

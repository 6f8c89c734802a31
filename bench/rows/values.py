"""Shared values, and arrays that are filled in the memory in which they will be received (loans)."""

from __future__ import annotations

import statistics
import time
from typing import Any

from rows.spec import STANDARD, Library, Row, Scale


def _make(library: Library, scale: Scale, name: str, *arguments: Any) -> float:
    """Microseconds of one construction, with a lock of its own."""
    make = getattr(library.context(), name)
    count = scale.count(2_000, 200)
    make(*arguments)
    begin = time.perf_counter()
    made = [make(*arguments) for _ in range(count)]
    seconds = time.perf_counter() - begin
    made.clear()
    return seconds / count * 1e6


def create_value(library: Library, scale: Scale) -> float:
    return _make(library, scale, "Value", "i", 0)


def create_array(library: Library, scale: Scale) -> float:
    return _make(library, scale, "Array", "d", 1_000)


LOAN_BYTES = 16 << 20


def loan_16m(library: Library, scale: Scale) -> float:
    """Microseconds from the end of a loan's block until this process receives the array: the cost of sending.

    The standard library's queue has no loans: it sends the array.
    """
    queue = library.context().Queue()
    times = []
    if library.name == STANDARD:
        import numpy as np

        plain: Any = np.zeros(LOAN_BYTES, np.uint8)
        for _ in range(3):
            begin = time.perf_counter()
            queue.put(plain)
            queue.get()
            times.append(time.perf_counter() - begin)
        return statistics.median(times) * 1e6
    for i in range(-20, scale.count(1_000, 100)):
        with queue.loan(LOAN_BYTES, "u1") as array:
            array[0] = 1
            begin = time.perf_counter()
        got = queue.get()
        if i >= 0:
            times.append(time.perf_counter() - begin)
        del got
    return statistics.median(times) * 1e6


def handle_64(scale: Scale) -> float:
    """Microseconds of put and get of a forklift.Tensor of 64 bytes: a handle."""
    import forklift
    from forklift.multiprocessing import Queue

    queue = Queue()
    tensor = forklift.zeros((64,), "uint8")
    times = []
    for i in range(-20, scale.count(1_000, 100)):
        begin = time.perf_counter()
        queue.put(tensor)
        got = queue.get()
        if i >= 0:
            times.append(time.perf_counter() - begin)
        del got
    return statistics.median(times) * 1e6


ROWS = (
    Row("create-value", "us", 10, measure=create_value),
    Row("create-array", "us", 10, measure=create_array, note="1000 doubles"),
    Row(
        "loan-16M",
        "us",
        measure=loan_16m,
        floor=handle_64,
        floor_name="a handle of 64 bytes",
        floor_factor=2,
        note="leaving the block, and get",
    ),
)

"""A manager's proxies."""

from __future__ import annotations

import statistics
import time
from typing import Any

from rows.spec import Library, Row, Scale

ROUNDS = 2_000
WARM_UP = 100


def manager(library: Library, scale: Scale) -> float:
    """Microseconds of one call through a proxy: dict set, dict get, queue put, queue get, in turn."""
    count = scale.count(ROUNDS, 200)
    clock = time.perf_counter
    times = []
    with library.context().Manager() as server:
        table: Any = server.dict()
        queue: Any = server.Queue()
        for i in range(-WARM_UP, count):
            begin = clock()
            table["key"] = i
            table["key"]
            queue.put(i)
            queue.get()
            if i >= 0:
                times.append((clock() - begin) / 4)
    return statistics.mean(times) * 1e6


ROWS = (Row("manager", "us", 4, measure=manager, note="a call: dict set and get, queue put and get"),)

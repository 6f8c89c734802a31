"""Pipes between processes."""

from __future__ import annotations

import statistics
import time
from typing import Any

from rows.spec import Library, Row, Scale

ROUND_TRIPS = 4_000
WARM_UP = 200


def _echo(end: Any, count: int) -> None:
    for _ in range(count):
        end.send(end.recv())


def pipe_rtt(library: Library, scale: Scale) -> float:
    """Microseconds of a round trip of a small int through one pipe, two processes."""
    context = library.context()
    count = scale.count(ROUND_TRIPS, 500)
    end, other = context.Pipe()
    peer = context.Process(target=_echo, args=(other, WARM_UP + count))
    peer.start()
    clock = time.perf_counter
    times = []
    for i in range(-WARM_UP, count):
        begin = clock()
        end.send(5)
        end.recv()
        if i >= 0:
            times.append(clock() - begin)
    peer.join()
    return statistics.mean(times) * 1e6


ROWS = (Row("pipe-rtt", "us", 5, measure=pipe_rtt),)

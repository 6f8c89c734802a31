"""Pipes between processes."""

from __future__ import annotations

import statistics
import time
from typing import Any

from peers.exchange import exchange_until_settled

from rows.spec import Library, Row, Scale

ROUND_TRIPS = 4_000


def _echo(end: Any) -> None:
    while (item := end.recv()) is not None:
        end.send(item)


def pipe_rtt(library: Library, scale: Scale) -> float:
    """Microseconds of a round trip of a small int through one pipe, two processes."""
    context = library.context()
    count = scale.count(ROUND_TRIPS, 500)
    end, other = context.Pipe()
    peer = context.Process(target=_echo, args=(other,))
    peer.start()

    def round_trip() -> None:
        end.send(5)
        end.recv()

    exchange_until_settled(round_trip)
    clock = time.perf_counter
    times = []
    for _ in range(count):
        begin = clock()
        end.send(5)
        end.recv()
        times.append(clock() - begin)
    end.send(None)
    peer.join()
    return statistics.mean(times) * 1e6


ROWS = (Row("pipe-rtt", "us", 5, measure=pipe_rtt),)

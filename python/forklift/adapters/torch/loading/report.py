"""What a loader's ``report()`` returns."""

from __future__ import annotations

import itertools
from typing import NamedTuple

__all__ = ["Books", "Report", "WorkerReport"]


class WorkerReport(NamedTuple):
    """One worker's time, in seconds. Its start and the time between epochs are in none of them."""

    busy: float  # in the dataset and the collate function
    blocked: float  # waiting for a task: the loader was ahead
    sending: float  # putting batches into the queue, and copying what was not collated into the arena
    batches: int
    restarts: int


class Report(NamedTuple):
    """Where the time went since the loader was made, over all its epochs.

    A program that waits long while its workers are busy needs more workers or a faster dataset. Workers that
    are blocked most of the time are enough.
    """

    batches: int  # that the program has got
    waited: float  # seconds that the program waited for them
    bytes: int  # of tensors and arrays in the batches that the workers made
    copied: int  # bytes of these that were not collated into the arena and had to be copied there
    workers: tuple[WorkerReport, ...]

    def __str__(self) -> str:
        lines = [
            f"{self.batches} batches, {self.bytes / 1e6:.1f} MB ({self.copied / 1e6:.1f} MB of them copied); "
            f"waited {self.waited:.2f} s for them",
        ]
        lines += [
            f"worker {number}: {each.busy:.2f} s busy, {each.blocked:.2f} s blocked, {each.sending:.2f} s "
            f"sending, {each.batches} batches" + (f", {each.restarts} restarts" if each.restarts else "")
            for number, each in enumerate(self.workers)
        ]
        return "\n".join(lines)


class Books:
    """What a report is made of: sums over iterators. A group's own are added when it is gone."""

    def __init__(self) -> None:
        self.batches = 0
        self.waited_ns = 0
        self._past: list[tuple[int, list[int]]] = []

    def add(self, workers: list[tuple[int, list[int]]]) -> None:
        """Add what the workers of a group have counted (WorkerGroup.books)."""
        self._past = self._with(workers)

    def _with(self, workers: list[tuple[int, list[int]]]) -> list[tuple[int, list[int]]]:
        nothing = (0, [0] * 6)
        return [
            (before[0] + now[0], [*map(sum, zip(before[1], now[1], strict=True))])
            for before, now in itertools.zip_longest(self._past, workers, fillvalue=nothing)
        ]

    def report(self, running: list[list[tuple[int, list[int]]]]) -> Report:
        """The report, with what the crews that are still there have counted."""
        sums = Books()
        sums._past = self._past
        for workers in running:
            sums.add(workers)
        reports = tuple(
            WorkerReport(busy / 1e9, blocked / 1e9, sending / 1e9, batches, restarts)
            for restarts, (batches, busy, blocked, sending, _, _) in sums._past
        )
        size, copied = (sum(counters[at] for _, counters in sums._past) for at in (4, 5))
        return Report(self.batches, self.waited_ns / 1e9, size, copied, reports)

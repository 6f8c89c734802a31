"""Ended tasks, on their way from the dispatcher to the job that they belong to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from forklift.cluster.packing import all_plain
from forklift.cluster.segment import Segment

__all__ = ["Ends", "stop"]


class Ends:
    """Ended tasks, as they came: their indices, packed values, and by place what the failed ones ended with.

    A failure is a tuple of forklift.cluster.outcomes, or an exception that was made here.
    """

    __slots__ = ("failures", "indices", "size", "values")

    def __init__(self, indices: Sequence[int], values: list[Any], failed: dict[int, Any] | None) -> None:
        self.indices = indices
        self.values = values
        self.failures = failed
        self.size = _size_of(values)


def stop(segment: Segment, places: list[int], why: tuple[Any, ...] = ("stopped", "", None)) -> None:
    """End tasks that will not be run."""
    indices = [segment.indices[each] for each in places]
    segment.job.end(Ends(indices, [None] * len(indices), dict.fromkeys(range(len(indices)), why)))


def _size_of(values: list[Any]) -> int:
    """About how many bytes the packed results have."""
    if all_plain(values):
        return 32 * len(values)
    size = 0
    for each in values:
        if type(each) is bytes:
            size += len(each)
        elif type(each) is tuple and len(each) == 2:
            size += len(each[0]) + sum(memoryview(part).nbytes for part in each[1])
        elif type(each) is list:
            size += 32 * len(each)
        else:
            size += 32
    return size

"""Packed tasks of one call, in a row, as they wait in the driver; the dispatcher cuts batches from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from forklift.cluster.wire import Batch, Shared

__all__ = ["Segment", "SharedObject"]

# About how many bytes a plain argument has.
PLAIN_BYTES = 32


class SharedObject:
    """An object that each node gets once. When the driver drops it, so do the nodes."""

    __slots__ = ("_forget", "shared")

    def __init__(self, shared: Shared, forget: Callable[[int], object]) -> None:
        self.shared = shared
        self._forget = forget

    def __del__(self) -> None:
        self._forget(self.shared.number)


class Segment:
    """Tasks of one call. ``attempt``: how often they were run before."""

    __slots__ = (
        "arguments",
        "attempt",
        "buffers",
        "function",
        "indices",
        "job",
        "plain",
        "retries",
        "seconds",
        "shared",
        "sizes",
        "style",
    )

    def __init__(
        self,
        job: Any,
        function: Any,  # (pickle, whether each task gets a copy of its own), or a SharedObject
        style: int,
        plain: bool,
        indices: Sequence[int],
        arguments: list[Any],
        *,
        buffers: dict[int, list[Any]] | None = None,
        shared: dict[int, list[SharedObject]] | None = None,
        sizes: list[int] | None = None,
        seconds: float = 0.0,
        retries: int = 0,
        attempt: int = 0,
    ) -> None:
        self.job = job
        self.function = function
        self.style = style
        self.plain = plain
        self.indices = indices
        self.arguments = arguments
        self.buffers = buffers
        self.shared = shared
        self.sizes = sizes
        self.seconds = seconds
        self.retries = retries
        self.attempt = attempt

    def __len__(self) -> int:
        return len(self.arguments)

    @property
    def bytes(self) -> int:
        return PLAIN_BYTES * len(self.arguments) if self.sizes is None else sum(self.sizes)

    def part(self, begin: int, end: int) -> Segment:
        """The tasks from one place to another."""
        return self._with(self.indices[begin:end], self.arguments[begin:end], range(begin, end), self.attempt)

    def again(self, places: list[int]) -> Segment:
        """The tasks at these places, to be run once more."""
        indices, arguments = self.indices, self.arguments
        return self._with(
            [indices[place] for place in places],
            [arguments[place] for place in places],
            places,
            self.attempt + 1,
        )

    def anew(self, places: list[int]) -> Segment:
        """The tasks at these places, which have not been run."""
        segment = self.again(places)
        segment.attempt = self.attempt
        return segment

    def _with(
        self, indices: Sequence[int], arguments: list[Any], places: Sequence[int], attempt: int
    ) -> Segment:
        return Segment(
            self.job,
            self.function,
            self.style,
            self.plain,
            indices,
            arguments,
            buffers=_chosen(self.buffers, places),
            shared=_chosen(self.shared, places),
            sizes=None if self.sizes is None else [self.sizes[place] for place in places],
            seconds=self.seconds,
            retries=self.retries,
            attempt=attempt,
        )

    def objects(self) -> list[SharedObject]:
        """The objects that the tasks share with others."""
        found = [self.function] if isinstance(self.function, SharedObject) else []
        for several in (self.shared or {}).values():
            found += several
        return found

    def batch(self, number: int) -> Batch:
        """What is sent."""
        function, shared = self.function, self.shared
        if isinstance(function, SharedObject):
            function = function.shared.number
        numbers = None
        if shared is not None:
            numbers = {place: [each.shared.number for each in some] for place, some in shared.items()}
        return Batch(
            number, function, self.style, self.plain, self.arguments, self.buffers, numbers, self.seconds
        )


def _chosen(by_place: dict[int, Any] | None, places: Sequence[int]) -> dict[int, Any] | None:
    if not by_place:
        return None
    return {new: by_place[old] for new, old in enumerate(places) if old in by_place} or None

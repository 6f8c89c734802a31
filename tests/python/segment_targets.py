"""Functions that children of the tests of named segments run."""

from __future__ import annotations

from typing import Any

from forklift._core import _segments


def fill(queue: Any, answers: Any) -> None:
    """Writes into each segment that comes, until None comes, and says its name."""
    while (block := queue.get()) is not None:
        memoryview(block)[:5] = b"child"
        answers.put(_segments.name(block))


def fill_argument(block: Any) -> None:
    memoryview(block)[:5] = b"child"


def make(queue: Any, count: int) -> None:
    for number in range(count):
        block = _segments.create(1000 + number)
        memoryview(block)[0] = number
        queue.put(block)

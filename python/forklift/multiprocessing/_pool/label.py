"""Texts for errors, insights and traces: a pool's name, its call, and the items of a task."""

from __future__ import annotations

import itertools
import os
import reprlib
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Label", "called", "end_traces", "name_of_pool", "shortened"]

_MOST = 120  # characters of an item


class _Short(reprlib.Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = self.maxlong = _MOST // 2
        self.maxlevel = 3


_short = _Short()


def shortened(item: Any) -> str:
    """The item's repr() in one line of at most 120 characters; a default one if repr() raises."""
    try:
        text = " ".join(_short.repr(item).split())
    except Exception:
        text = object.__repr__(item)
    return text if len(text) <= _MOST else text[: _MOST - 3] + "..."


_numbers = itertools.count(1)


def name_of_pool(kind: str) -> str:
    """A new pool's name, such as ``Pool 1 of process 4711``."""
    return f"{kind} {next(_numbers)} of process {os.getpid()}"


def end_traces() -> None:
    """In a worker that ends: export its spans, if it has made any."""
    telemetry: Any = sys.modules.get("forklift.telemetry")
    if telemetry is not None:
        telemetry.flush()


# bindings/pool/task.h: how a task's arguments are passed to its function.
_NAMED, _ITEM, _CHUNK, _STARRED_CHUNK = 1, 2, 4, 5


def called(function: Any, arguments: Any, style: int) -> str:
    """A task's function and arguments, such as ``render(5, mode='x')``; of a chunk the first item."""
    name = getattr(function, "__qualname__", None) or shortened(function)
    more = ""
    named: Any = {}
    if style in (_CHUNK, _STARRED_CHUNK) and arguments:
        if len(arguments) > 1:
            more = f" and {len(arguments) - 1} more"
        arguments = arguments[0]
        style -= 2
    if style == _ITEM:
        arguments = (arguments,)
    elif style == _NAMED:
        arguments, named = arguments
    try:
        shown = [shortened(each) for each in arguments]
        shown += [f"{key}={shortened(value)}" for key, value in dict(named).items()]
    except Exception:  # arguments that can be gone through only once
        shown = ["..."]
    text = ", ".join(shown)
    return f"{name}({text if len(text) <= _MOST else text[: _MOST - 3] + '...'}){more}"


class Label:
    """A call's name, such as ``map(render)``, and its items if they are in a list."""

    def __init__(self, name: str, items: Any = None, chunksize: int = 1) -> None:
        self.name = name
        self.items = items
        self.chunksize = max(chunksize, 1)

    def first(self, task: int) -> int:
        """The index of a task's first item."""
        return task * self.chunksize

    def count(self, task: int) -> int:
        """The number of items in a task; the largest possible number if the items are not known."""
        return self.chunksize if self.items is None else len(self._of(task))

    def _of(self, task: int) -> list[Any]:
        return list(itertools.islice(self.items, self.first(task), self.first(task + 1)))

    def item(self, index: int) -> str | None:
        """An item's shortened representation; None if the items are not known."""
        items = self.items
        return shortened(items[index]) if items is not None and index < len(items) else None

    def task(self, task: int) -> str:
        """A text with the task's number, its call and its items."""
        if self.items is None:
            return f"task {task} of {self.name}"
        shown = ", ".join(shortened(each) for each in self._of(task)[:3])
        more = ", ..." if self.count(task) > 3 else ""
        where = "" if self.chunksize == 1 else f"{self._places(task)}: "
        return f"task {task} of {self.name} ({where}{shown}{more})"

    def _places(self, task: int) -> str:
        first, count = self.first(task), self.count(task)
        return f"item {first}" if count == 1 else f"items {first} to {first + count - 1}"

"""What a loader knows of its iterators, without keeping them alive."""

from __future__ import annotations

import weakref
from typing import Any

from forklift.adapters.torch.loading.report import Books, Report

__all__ = ["Journal"]


class Journal:
    """Held by a loader and by its iterators. The latest iterator's epoch is the loader's."""

    def __init__(self) -> None:
        self.books = Books()
        self._iterators: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self._latest = 0
        self._left: dict[str, Any] | None = None  # the state of the latest, if it was left in mid-epoch

    def __reduce__(self) -> Any:
        return Journal, ()  # a copy of the loader has its own

    def enter(self, iterator: Any, before: int = -1) -> int:
        """Note an iterator that begins an epoch. Returns its number, which replaces the one of `before`."""
        self._iterators.pop(before, None)
        self._latest += 1
        self._iterators[self._latest] = iterator
        self._left = None
        return self._latest

    def leave(self, number: int, state: dict[str, Any] | None) -> None:
        """Note that an iterator is about to be gone, and the state in which it left its epoch."""
        if number == self._latest:
            self._left = state

    def forget(self) -> None:
        """Whatever epoch is open is not the loader's any more."""
        self._latest += 1
        self._left = None

    def state(self) -> dict[str, Any] | None:
        """Where the latest iterator stands in its epoch. None between two epochs."""
        iterator = self._iterators.get(self._latest)
        return self._left if iterator is None else iterator.state()

    def report(self) -> Report:
        return self.books.report([each.group.books() for each in self._iterators.values() if each.group])

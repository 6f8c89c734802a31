"""Generic classes without ``typing``, which would be a long import for every child's fresh interpreter."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Bases"]


class Bases:
    """Several base classes in a class statement, with or without parameters: ``class A(bases[T])``.

    Type checkers see a generic class in its place.
    """

    def __init__(self, *bases: type) -> None:
        self._bases = bases

    def __getitem__(self, _parameters: Any) -> Bases:
        return self

    def __mro_entries__(self, _bases: Any) -> tuple[type, ...]:
        return self._bases

"""Generic classes without ``typing``, which every fresh interpreter among the children would import."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Bases"]


class Bases:
    """Several base classes in a class statement, with or without parameters: ``class A(bases[T])``.

    For type checkers there is a generic class in its place.
    """

    def __init__(self, *bases: type) -> None:
        self._bases = bases

    def __getitem__(self, _parameters: Any) -> Bases:
        return self

    def __mro_entries__(self, _bases: Any) -> tuple[type, ...]:
        return self._bases

"""Generic classes without ``typing``, whose import would slow the start of every fresh interpreter."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Bases"]


class Bases:
    """Stands for several base classes in a class statement, also with parameters: ``class A(bases[T])``.

    Type checkers see a generic class in its place.
    """

    def __init__(self, *bases: type) -> None:
        self._bases = bases

    def __getitem__(self, _parameters: Any) -> Bases:
        return self

    def __mro_entries__(self, _bases: Any) -> tuple[type, ...]:
        return self._bases

"""forklift.ops.random: random numbers. For type checkers alone."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from forklift import Tensor

_Array: TypeAlias = Tensor | np.ndarray[Any, Any]
_Shape: TypeAlias = int | Sequence[int] | None

class Generator:
    """Random numbers by Philox4x32-10. They depend on the seed and on the calls before, not on threads.

    Without a seed one of the system's entropy. A generator can be pickled, and goes on where it stood.
    """

    def __init__(self, seed: int | None = None) -> None: ...
    def uniform(
        self, low: float = 0.0, high: float = 1.0, *, shape: _Shape = None, dtype: Any = None
    ) -> Tensor:
        """At least `low` and less than `high`; float32 (without a dtype) or float64."""

    def normal(
        self, mean: float = 0.0, std: float = 1.0, *, shape: _Shape = None, dtype: Any = None
    ) -> Tensor:
        """Of the normal distribution; float32 (without a dtype) or float64."""

    def integers(
        self, low: int, high: int | None = None, *, shape: _Shape = None, dtype: Any = None
    ) -> Tensor:
        """At least `low` (one number: 0) and less than `high`; int64 without a dtype."""

    def permutation(self, x: int | _Array) -> Tensor:
        """The numbers before x in random order, or a copy of x in random order along its first dimension."""

    def shuffle(self, x: _Array) -> None:
        """Puts x, along its first dimension, into random order, in place."""

    def spawn(self, n: int) -> list[Generator]:
        """Generators for workers, whose numbers have nothing to do with each other's."""

    @property
    def state(self) -> tuple[int, int, int, int]:
        """Key, stream, blocks used, generators spawned."""

    def __getstate__(self) -> tuple[int, int, int, int]: ...
    def __setstate__(self, state: tuple[int, int, int, int]) -> None: ...

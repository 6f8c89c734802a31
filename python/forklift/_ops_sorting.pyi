"""A part of forklift.ops: sorting, searching, sets, sums along a dimension. For type checkers alone."""

from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from forklift import Tensor

_Array: TypeAlias = Tensor | np.ndarray[Any, Any]
_Operand: TypeAlias = Tensor | np.ndarray[Any, Any] | np.generic | complex

class UniqueAllResult(NamedTuple):
    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor

class UniqueCountsResult(NamedTuple):
    values: Tensor
    counts: Tensor

class UniqueInverseResult(NamedTuple):
    values: Tensor
    inverse_indices: Tensor

def sort(x: _Array, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """A copy, sorted along a dimension. NaN comes last in either order; always stable."""

def argsort(x: _Array, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The indices (int64) that sort() would take its elements from."""

def searchsorted(
    x1: _Array, x2: _Operand, *, side: Literal["left", "right"] = "left", sorter: _Array | None = None
) -> Tensor:
    """Where (int64) each element of x2 would have to be inserted into x1, which is sorted (by `sorter`)."""

def isin(x1: _Operand, x2: _Operand, *, invert: bool = False) -> Tensor:
    """Which elements of x1 are (`invert`: are not) among those of x2 (bool)."""

def unique_values(x: _Array) -> Tensor:
    """The distinct elements, in ascending order. Each NaN is one of its own."""

def unique_all(x: _Array) -> UniqueAllResult:
    """The distinct elements, where each one first occurs, the way back, and how often each occurs."""

def unique_counts(x: _Array) -> UniqueCountsResult:
    """The distinct elements, and how often each occurs."""

def unique_inverse(x: _Array) -> UniqueInverseResult:
    """The distinct elements, and for each element of x the index of its value."""

def nonzero(x: _Array) -> tuple[Tensor, ...]:
    """Of each dimension the indices (int64) of the elements that are not zero."""

def count_nonzero(x: _Array, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Tensor:
    """How many elements are not zero (int64). Along `axis`, or of all elements."""

def cumulative_sum(
    x: _Array, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """The sums of the elements so far; of integers of 64 bits. `include_initial`: beginning with 0."""

def cumulative_prod(
    x: _Array, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """The products of the elements so far; of integers of 64 bits. `include_initial`: beginning with 1."""

def diff(
    x: _Array, *, axis: int = -1, n: int = 1, prepend: _Array | None = None, append: _Array | None = None
) -> Tensor:
    """The differences of neighbours, `n` times over; of bools whether they differ."""

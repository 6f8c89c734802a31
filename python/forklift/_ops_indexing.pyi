"""A part of forklift.ops: elements by their indices, tensors rearranged and new. For type checkers alone."""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from forklift import Tensor

_Array: TypeAlias = Tensor | np.ndarray[Any, Any]
_Operand: TypeAlias = Tensor | np.ndarray[Any, Any] | np.generic | complex
_Axes: TypeAlias = int | Sequence[int]

def take(x: _Array, indices: _Array, *, axis: int | None = None) -> Tensor:
    """The elements at these indices along a dimension, or of the flattened tensor. IndexError."""

def take_along_axis(x: _Array, indices: _Array, *, axis: int = -1) -> Tensor:
    """The elements at indices of its own for each line, as argsort() gives them. IndexError."""

def repeat(x: _Array, repeats: int | _Array, *, axis: int | None = None) -> Tensor:
    """Each element so many times, along a dimension or of the flattened tensor."""

def roll(x: _Array, shift: _Axes, *, axis: _Axes | None = None) -> Tensor:
    """Turned by so many places; what leaves at the end comes in at the beginning."""

def tile(x: _Array, repetitions: _Axes) -> Tensor:
    """The tensor side by side so many times along each of its last dimensions."""

def tril(x: _Array, *, k: int = 0) -> Tensor:
    """A copy with zeros above the k-th diagonal of the last two dimensions."""

def triu(x: _Array, *, k: int = 0) -> Tensor:
    """A copy with zeros below the k-th diagonal of the last two dimensions."""

def moveaxis(x: _Array, source: _Axes, destination: _Axes) -> Tensor:
    """A view with some dimensions at other places; the others keep their order."""

def matrix_transpose(x: _Array) -> Tensor:
    """A view with its last two dimensions exchanged."""

def unstack(x: _Array, *, axis: int = 0) -> tuple[Tensor, ...]:
    """Views without that dimension, one for each of its indices."""

def broadcast_arrays(*arrays: _Array) -> list[Tensor]:
    """Read-only views of one shape."""

def meshgrid(*arrays: _Array, indexing: Literal["xy", "ij"] = "xy") -> list[Tensor]:
    """The coordinates of all points of the grid of tensors of one dimension."""

def zeros(shape: _Axes, *, dtype: Any = None, device: str | None = None) -> Tensor:
    """Zeros; float32 without a dtype."""

def ones(shape: _Axes, *, dtype: Any = None, device: str | None = None) -> Tensor:
    """Ones; float32 without a dtype."""

def empty(shape: _Axes, *, dtype: Any = None, device: str | None = None) -> Tensor:
    """Elements of any value; float32 without a dtype."""

def zeros_like(x: _Array, *, dtype: Any = None, device: str | None = None) -> Tensor:
    """Zeros of the shape and, unless a dtype is named, the dtype of x."""

def ones_like(x: _Array, *, dtype: Any = None, device: str | None = None) -> Tensor:
    """Ones of the shape and, unless a dtype is named, the dtype of x."""

def empty_like(x: _Array, *, dtype: Any = None, device: str | None = None) -> Tensor:
    """Elements of any value, of the shape and, unless a dtype is named, the dtype of x."""

def full_like(x: _Array, fill_value: complex, *, dtype: Any = None, device: str | None = None) -> Tensor:
    """All elements alike, of the shape and, unless a dtype is named, the dtype of x."""

def eye(
    n_rows: int, n_cols: int | None = None, *, k: int = 0, dtype: Any = None, device: str | None = None
) -> Tensor:
    """Ones on the k-th diagonal, else zeros; float32 without a dtype."""

def vecdot(x1: _Array, x2: _Array, *, axis: int = -1) -> Tensor:
    """The sums of conj(x1) * x2 along a dimension; the others are broadcast."""

def tensordot(
    x1: _Array, x2: _Array, *, axes: int | tuple[Sequence[int] | int, Sequence[int] | int] = 2
) -> Tensor:
    """The sums of x1 * x2 along pairs of dimensions: those named, or the last of x1 and the first of x2."""

def result_type(*arrays_and_dtypes: Any) -> str:
    """The dtype of an operation on these tensors, arrays, numbers and dtypes."""

def can_cast(from_: Any, to: Any) -> bool:
    """Does every number of the one dtype have its like in the other?"""

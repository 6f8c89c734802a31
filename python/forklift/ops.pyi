"""Operations on tensors; see forklift/ops.py."""

import builtins
from collections.abc import Sequence
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from forklift import Tensor, _ops_random
from forklift._ops_indexing import (
    broadcast_arrays as broadcast_arrays,
)
from forklift._ops_indexing import (
    can_cast as can_cast,
)
from forklift._ops_indexing import (
    empty as empty,
)
from forklift._ops_indexing import (
    empty_like as empty_like,
)
from forklift._ops_indexing import (
    eye as eye,
)
from forklift._ops_indexing import (
    full_like as full_like,
)
from forklift._ops_indexing import (
    matrix_transpose as matrix_transpose,
)
from forklift._ops_indexing import (
    meshgrid as meshgrid,
)
from forklift._ops_indexing import (
    moveaxis as moveaxis,
)
from forklift._ops_indexing import (
    ones as ones,
)
from forklift._ops_indexing import (
    ones_like as ones_like,
)
from forklift._ops_indexing import (
    repeat as repeat,
)
from forklift._ops_indexing import (
    result_type as result_type,
)
from forklift._ops_indexing import (
    roll as roll,
)
from forklift._ops_indexing import (
    take as take,
)
from forklift._ops_indexing import (
    take_along_axis as take_along_axis,
)
from forklift._ops_indexing import (
    tensordot as tensordot,
)
from forklift._ops_indexing import (
    tile as tile,
)
from forklift._ops_indexing import (
    tril as tril,
)
from forklift._ops_indexing import (
    triu as triu,
)
from forklift._ops_indexing import (
    unstack as unstack,
)
from forklift._ops_indexing import (
    vecdot as vecdot,
)
from forklift._ops_indexing import (
    zeros as zeros,
)
from forklift._ops_indexing import (
    zeros_like as zeros_like,
)
from forklift._ops_sorting import (
    UniqueAllResult as UniqueAllResult,
)
from forklift._ops_sorting import (
    UniqueCountsResult as UniqueCountsResult,
)
from forklift._ops_sorting import (
    UniqueInverseResult as UniqueInverseResult,
)
from forklift._ops_sorting import (
    argsort as argsort,
)
from forklift._ops_sorting import (
    count_nonzero as count_nonzero,
)
from forklift._ops_sorting import (
    cumulative_prod as cumulative_prod,
)
from forklift._ops_sorting import (
    cumulative_sum as cumulative_sum,
)
from forklift._ops_sorting import (
    diff as diff,
)
from forklift._ops_sorting import (
    isin as isin,
)
from forklift._ops_sorting import (
    nonzero as nonzero,
)
from forklift._ops_sorting import (
    searchsorted as searchsorted,
)
from forklift._ops_sorting import (
    sort as sort,
)
from forklift._ops_sorting import (
    unique_all as unique_all,
)
from forklift._ops_sorting import (
    unique_counts as unique_counts,
)
from forklift._ops_sorting import (
    unique_inverse as unique_inverse,
)
from forklift._ops_sorting import (
    unique_values as unique_values,
)
from forklift.adapters.array_namespace import DType, Inspection
from forklift.adapters.array_namespace import finfo as finfo
from forklift.adapters.array_namespace import iinfo as iinfo

_Operand: TypeAlias = Tensor | np.ndarray[Any, Any] | np.generic | complex
_Array: TypeAlias = Tensor | np.ndarray[Any, Any]
_Axis: TypeAlias = int | Sequence[int] | None
_Bool: TypeAlias = builtins.bool  # `bool` is a dtype here

bool: Final[DType]
int8: Final[DType]
int16: Final[DType]
int32: Final[DType]
int64: Final[DType]
uint8: Final[DType]
uint16: Final[DType]
uint32: Final[DType]
uint64: Final[DType]
float16: Final[DType]
bfloat16: Final[DType]
float32: Final[DType]
float64: Final[DType]
complex64: Final[DType]
complex128: Final[DType]

e: Final[float]
pi: Final[float]
inf: Final[float]
nan: Final[float]
newaxis: Final = None
__array_api_version__: Final = "2024.12"

_Kind: TypeAlias = Literal[
    "bool",
    "signed integer",
    "unsigned integer",
    "integral",
    "real floating",
    "complex floating",
    "numeric",
]

def __array_namespace_info__() -> Inspection:
    """What this namespace can do, in the words of the array API standard."""

def isdtype(dtype: Any, kind: _Kind | Any | tuple[Any, ...]) -> _Bool:
    """Whether it is that dtype, of that kind, or one of several. ValueError for what is no kind."""

def asarray(obj: Any, *, dtype: Any = None, device: str | None = None, copy: _Bool | None = None) -> Tensor:
    """A Tensor of an array, a DLPack object, a buffer, a number or nested lists.

    Without `copy` it shares the memory of an array if dtype and device allow that; a Tensor is returned as it
    is. copy=False: ValueError if they do not. Python's floats become float32 and its integers int64.
    """

def from_dlpack(x: Any, *, device: str | None = None, copy: _Bool | None = None) -> Tensor:
    """A Tensor over the memory of an object with ``__dlpack__``, or a copy on `device`."""

random = _ops_random

def negative(x: _Operand, *, out: Tensor | None = None) -> Tensor:
    """-x"""

def positive(x: _Operand, *, out: Tensor | None = None) -> Tensor:
    """A copy of x."""

def abs(x: _Operand, *, out: Tensor | None = None) -> Tensor:
    """The magnitude; of complex numbers a real one."""

def sign(x: _Operand, *, out: Tensor | None = None) -> Tensor:
    """-1, 0 or 1; of a complex number x / abs(x)."""

def square(x: _Operand, *, out: Tensor | None = None) -> Tensor:
    """x * x"""

def reciprocal(x: _Operand, *, out: Tensor | None = None) -> Tensor:
    """1 / x"""

def sqrt(x: _Operand, *, out: Tensor | None = None) -> Tensor:
    """The square root; NaN of what is negative."""

def exp(x: _Operand, *, out: Tensor | None = None) -> Tensor:
    """e to the power of x."""

def exp2(x: _Operand, *, out: Tensor | None = None) -> Tensor:
    """2 to the power of x."""

def expm1(x: _Operand, *, out: Tensor | None = None) -> Tensor:
    """exp(x) - 1, accurate near 0."""

def log(x: _Operand, *, out: Tensor | None = None) -> Tensor:
    """The natural logarithm; -inf at 0, NaN below."""

def log2(x: _Operand, *, out: Tensor | None = None) -> Tensor:
    """The logarithm to base 2."""

def log10(x: _Operand, *, out: Tensor | None = None) -> Tensor:
    """The logarithm to base 10."""

def log1p(x: _Operand, *, out: Tensor | None = None) -> Tensor:
    """log(1 + x), accurate near 0."""

def sin(x: _Operand, *, out: Tensor | None = None) -> Tensor:
    """The sin of each element."""

def cos(x: _Operand, *, out: Tensor | None = None) -> Tensor:
    """The cos of each element."""

def tan(x: _Operand, *, out: Tensor | None = None) -> Tensor:
    """The tan of each element."""

def asin(x: _Operand, *, out: Tensor | None = None) -> Tensor:
    """The asin of each element."""

def acos(x: _Operand, *, out: Tensor | None = None) -> Tensor:
    """The acos of each element."""

def atan(x: _Operand, *, out: Tensor | None = None) -> Tensor:
    """The atan of each element."""

def sinh(x: _Operand, *, out: Tensor | None = None) -> Tensor:
    """The sinh of each element."""

def cosh(x: _Operand, *, out: Tensor | None = None) -> Tensor:
    """The cosh of each element."""

def tanh(x: _Operand, *, out: Tensor | None = None) -> Tensor:
    """The tanh of each element."""

def asinh(x: _Operand, *, out: Tensor | None = None) -> Tensor:
    """The asinh of each element."""

def acosh(x: _Operand, *, out: Tensor | None = None) -> Tensor:
    """The acosh of each element."""

def atanh(x: _Operand, *, out: Tensor | None = None) -> Tensor:
    """The atanh of each element."""

def cbrt(x: _Operand, *, out: Tensor | None = None) -> Tensor:
    """The cube root."""

def erf(x: _Operand, *, out: Tensor | None = None) -> Tensor:
    """The error function."""

def ceil(x: _Operand, *, out: Tensor | None = None) -> Tensor:
    """Rounded towards plus infinity."""

def floor(x: _Operand, *, out: Tensor | None = None) -> Tensor:
    """Rounded towards minus infinity."""

def trunc(x: _Operand, *, out: Tensor | None = None) -> Tensor:
    """Rounded towards zero."""

def round(x: _Operand, *, out: Tensor | None = None) -> Tensor:
    """The nearest whole number; half-way cases go to the even one. Of a complex number both parts."""

def isnan(x: _Operand, *, out: Tensor | None = None) -> Tensor:
    """Which elements are NaN (bool)."""

def isinf(x: _Operand, *, out: Tensor | None = None) -> Tensor:
    """Which elements are infinite (bool)."""

def isfinite(x: _Operand, *, out: Tensor | None = None) -> Tensor:
    """Which elements are neither NaN nor infinite (bool)."""

def signbit(x: _Operand, *, out: Tensor | None = None) -> Tensor:
    """Which elements have their sign bit set (bool)."""

def logical_not(x: _Operand, *, out: Tensor | None = None) -> Tensor:
    """Which elements are zero (bool)."""

def bitwise_invert(x: _Operand, *, out: Tensor | None = None) -> Tensor:
    """All bits turned over; of bools logical not."""

def real(x: _Operand, *, out: Tensor | None = None) -> Tensor:
    """The real part."""

def imag(x: _Operand, *, out: Tensor | None = None) -> Tensor:
    """The imaginary part of complex numbers."""

def conj(x: _Operand, *, out: Tensor | None = None) -> Tensor:
    """The complex conjugate."""

def add(x1: _Operand, x2: _Operand, *, out: Tensor | None = None) -> Tensor:
    """x1 + x2"""

def subtract(x1: _Operand, x2: _Operand, *, out: Tensor | None = None) -> Tensor:
    """x1 - x2"""

def multiply(x1: _Operand, x2: _Operand, *, out: Tensor | None = None) -> Tensor:
    """x1 * x2"""

def divide(x1: _Operand, x2: _Operand, *, out: Tensor | None = None) -> Tensor:
    """x1 / x2; of integers a float64."""

def floor_divide(x1: _Operand, x2: _Operand, *, out: Tensor | None = None) -> Tensor:
    """The quotient rounded towards minus infinity; of integers 0 where x2 is 0."""

def remainder(x1: _Operand, x2: _Operand, *, out: Tensor | None = None) -> Tensor:
    """x1 - x2 * floor_divide(x1, x2): it has x2's sign."""

def pow(x1: _Operand, x2: _Operand, *, out: Tensor | None = None) -> Tensor:
    """x1 to the power of x2. ValueError for a negative power of an integer."""

def maximum(x1: _Operand, x2: _Operand, *, out: Tensor | None = None) -> Tensor:
    """The larger element; a NaN wins."""

def minimum(x1: _Operand, x2: _Operand, *, out: Tensor | None = None) -> Tensor:
    """The smaller element; a NaN wins."""

def atan2(x1: _Operand, x2: _Operand, *, out: Tensor | None = None) -> Tensor:
    """The angle of the point (x2, x1), from -pi to pi."""

def hypot(x1: _Operand, x2: _Operand, *, out: Tensor | None = None) -> Tensor:
    """sqrt(x1**2 + x2**2), without overflow in between."""

def copysign(x1: _Operand, x2: _Operand, *, out: Tensor | None = None) -> Tensor:
    """The magnitude of x1 with the sign of x2."""

def nextafter(x1: _Operand, x2: _Operand, *, out: Tensor | None = None) -> Tensor:
    """The next number after x1 towards x2."""

def logaddexp(x1: _Operand, x2: _Operand, *, out: Tensor | None = None) -> Tensor:
    """log(exp(x1) + exp(x2)), without overflow in between."""

def equal(x1: _Operand, x2: _Operand, *, out: Tensor | None = None) -> Tensor:
    """x1 == x2"""

def not_equal(x1: _Operand, x2: _Operand, *, out: Tensor | None = None) -> Tensor:
    """x1 != x2"""

def less(x1: _Operand, x2: _Operand, *, out: Tensor | None = None) -> Tensor:
    """x1 < x2"""

def less_equal(x1: _Operand, x2: _Operand, *, out: Tensor | None = None) -> Tensor:
    """x1 <= x2"""

def greater(x1: _Operand, x2: _Operand, *, out: Tensor | None = None) -> Tensor:
    """x1 > x2"""

def greater_equal(x1: _Operand, x2: _Operand, *, out: Tensor | None = None) -> Tensor:
    """x1 >= x2"""

def logical_and(x1: _Operand, x2: _Operand, *, out: Tensor | None = None) -> Tensor:
    """Where both are not zero (bool)."""

def logical_or(x1: _Operand, x2: _Operand, *, out: Tensor | None = None) -> Tensor:
    """Where one of them is not zero (bool)."""

def logical_xor(x1: _Operand, x2: _Operand, *, out: Tensor | None = None) -> Tensor:
    """Where exactly one is not zero (bool)."""

def bitwise_and(x1: _Operand, x2: _Operand, *, out: Tensor | None = None) -> Tensor:
    """x1 & x2"""

def bitwise_or(x1: _Operand, x2: _Operand, *, out: Tensor | None = None) -> Tensor:
    """x1 | x2"""

def bitwise_xor(x1: _Operand, x2: _Operand, *, out: Tensor | None = None) -> Tensor:
    """x1 ^ x2"""

def bitwise_left_shift(x1: _Operand, x2: _Operand, *, out: Tensor | None = None) -> Tensor:
    """x1 shifted by x2 bits; 0 where that is more bits than there are."""

def bitwise_right_shift(x1: _Operand, x2: _Operand, *, out: Tensor | None = None) -> Tensor:
    """x1 shifted by x2 bits, keeping its sign."""

def where(condition: _Operand, x1: _Operand, x2: _Operand, *, out: Tensor | None = None) -> Tensor:
    """x1 where the condition holds, else x2."""

def clip(
    x: _Operand, min: _Operand | None = None, max: _Operand | None = None, *, out: Tensor | None = None
) -> Tensor:
    """At least `min`, at most `max`; None is no limit."""

def sum(
    x: _Array, *, axis: _Axis = None, dtype: Any = None, keepdims: _Bool = False, out: Tensor | None = None
) -> Tensor:
    """The sum; of integers of 64 bits. Along `axis`, or of all elements."""

def prod(
    x: _Array, *, axis: _Axis = None, dtype: Any = None, keepdims: _Bool = False, out: Tensor | None = None
) -> Tensor:
    """The product; of integers of 64 bits. Along `axis`, or of all elements."""

def max(
    x: _Array, *, axis: _Axis = None, dtype: Any = None, keepdims: _Bool = False, out: Tensor | None = None
) -> Tensor:
    """The largest element; a NaN wins. ValueError where there are none. Along `axis`, or of all elements."""

def min(
    x: _Array, *, axis: _Axis = None, dtype: Any = None, keepdims: _Bool = False, out: Tensor | None = None
) -> Tensor:
    """The smallest element; a NaN wins. ValueError where there are none. Along `axis`, or of all elements."""

def all(
    x: _Array, *, axis: _Axis = None, dtype: Any = None, keepdims: _Bool = False, out: Tensor | None = None
) -> Tensor:
    """Whether all elements are not zero (bool). Along `axis`, or of all elements."""

def any(
    x: _Array, *, axis: _Axis = None, dtype: Any = None, keepdims: _Bool = False, out: Tensor | None = None
) -> Tensor:
    """Whether any element is not zero (bool). Along `axis`, or of all elements."""

def mean(
    x: _Array, *, axis: _Axis = None, dtype: Any = None, keepdims: _Bool = False, out: Tensor | None = None
) -> Tensor:
    """The mean; of integers a float64. Along `axis`, or of all elements."""

def var(
    x: _Array,
    *,
    axis: _Axis = None,
    correction: float = 0.0,
    keepdims: _Bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """The variance; `correction` is taken from the number of elements (1: of a sample)."""

def std(
    x: _Array,
    *,
    axis: _Axis = None,
    correction: float = 0.0,
    keepdims: _Bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """The standard deviation; `correction` is taken from the number of elements (1: of a sample)."""

def argmax(x: _Array, *, axis: int | None = None, keepdims: _Bool = False) -> Tensor:
    """The index (int64) of the first largest element; without an axis of the flattened tensor."""

def argmin(x: _Array, *, axis: int | None = None, keepdims: _Bool = False) -> Tensor:
    """The index (int64) of the first smallest element; without an axis of the flattened tensor."""

def matmul(x1: _Array, x2: _Array, *, out: Tensor | None = None) -> Tensor:
    """The product of matrices, of stacks of them (which are broadcast), or with vectors."""

def astype(x: _Array, dtype: Any, *, copy: _Bool = True, device: str | None = None) -> Tensor:
    """The elements as another dtype, on that device. Floats are truncated to integers."""

def concat(arrays: Sequence[_Array], *, axis: int | None = 0) -> Tensor:
    """Along a dimension in which alone they may differ; without an axis they are flattened before."""

def stack(arrays: Sequence[_Array], *, axis: int = 0) -> Tensor:
    """Tensors of one shape along a new dimension."""

def broadcast_to(x: _Array, shape: Sequence[int] | int) -> Tensor:
    """A read-only view that repeats its elements."""

def reshape(x: _Array, shape: Sequence[int] | int, *, copy: _Bool | None = None) -> Tensor:
    """A view if the elements lie so that one is possible, else a copy. One length may be -1.

    copy=True: always a copy. copy=False: ValueError where a view is not possible.
    """

def permute_dims(x: _Array, axes: Sequence[int]) -> Tensor:
    """A view with its dimensions in that order."""

def expand_dims(x: _Array, *, axis: int = 0) -> Tensor:
    """A view with one more dimension, of length one."""

def squeeze(x: _Array, axis: int | Sequence[int]) -> Tensor:
    """A view without these dimensions, which have length one."""

def flip(x: _Array, *, axis: _Axis = None) -> Tensor:
    """A view with its elements in reverse order, along all dimensions if none are named."""

def full(
    shape: Sequence[int] | int, fill_value: complex, *, dtype: Any = None, device: str | None = None
) -> Tensor:
    """All elements alike; without a dtype int64, float32, bool or complex64, as the number is."""

def arange(
    start: float, stop: float | None = None, step: float = 1, *, dtype: Any = None, device: str | None = None
) -> Tensor:
    """start, start + step, ... before stop; with one number from 0 to before it."""

def linspace(
    start: float,
    stop: float,
    num: int,
    *,
    dtype: Any = None,
    device: str | None = None,
    endpoint: _Bool = True,
) -> Tensor:
    """`num` numbers (float32) from start to stop, which is the last of them if `endpoint`."""

"""`Carried`: an array whose element type `forklift.Tensor` does not have, as its bits and the type's name.

    carried.dtype          # "float8_e4m3fn"
    carried.bits           # a Tensor (or a small NumPy array) of unsigned integers of the same size and shape
    carried.numpy()        # an array of ml_dtypes.float8_e4m3fn over the same memory

Such an array travels unchanged. Converting it to a framework that does not know the type raises a TypeError
that says so.
"""

from __future__ import annotations

from typing import Any

__all__ = ["Carried", "bits_of", "ml_dtype", "small_float"]

# An array of at most this size travels inside its message.
_INLINE_BYTES = 4096


class Carried:
    """An array of the element type `dtype`, stored as unsigned integers of the same size and shape."""

    __slots__ = ("bits", "dtype")

    def __init__(self, bits: Any, dtype: str) -> None:
        self.bits = bits
        self.dtype = dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.bits.shape)

    def numpy(self) -> Any:
        """An array of ml_dtypes' type over the same memory. TypeError if ml_dtypes has no such type."""
        import numpy as np

        kind = ml_dtype(self.dtype)
        if kind is None:
            raise TypeError(f"NumPy has no {self.dtype}, and ml_dtypes is not installed or has none either")
        return np.asarray(self.bits).view(kind)

    def __reduce__(self) -> Any:
        return Carried, (self.bits, self.dtype)

    def __repr__(self) -> str:
        return f"forklift.Carried({self.dtype}{self.shape})"


def ml_dtype(name: str) -> Any:
    """The NumPy dtype of this name in ml_dtypes; None if there is none, or ml_dtypes is not installed."""
    try:
        import ml_dtypes
        import numpy as np
    except ImportError:
        return None
    kind = getattr(ml_dtypes, name, None)
    return None if kind is None else np.dtype(kind)


def small_float(dtype: Any) -> bool:
    """Tells whether another package (such as ml_dtypes) registered this dtype with NumPy."""
    return bool(dtype.isbuiltin == 2 and dtype.itemsize in (1, 2, 4, 8))


def bits_of(array: Any) -> Any:
    """A view of the array's elements as unsigned integers of the same size."""
    import numpy as np

    kind = np.dtype(f"u{array.dtype.itemsize}")
    return array.view(kind)


def fits_inline(array: Any) -> bool:
    return bool(array.nbytes <= _INLINE_BYTES)

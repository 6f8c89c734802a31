"""Arrays of an element type that `forklift.Tensor` does not have: their bits, and the type's name.

    carried.dtype          # "float8_e4m3fn"
    carried.bits           # a Tensor (or a small NumPy array) of unsigned integers of the same size and shape
    carried.numpy()        # an array of ml_dtypes.float8_e4m3fn over the same memory

Such an array travels unchanged; turning it into a framework's own fails, with a TypeError that says so, where
the framework does not know the type.
"""

from __future__ import annotations

from typing import Any

__all__ = ["Carried", "bits_of", "ml_dtype", "small_float"]

# Up to here an array travels inside its message.
_INLINE_BYTES = 4096


class Carried:
    """An array in the element type `dtype`, as unsigned integers of the same size."""

    __slots__ = ("bits", "dtype")

    def __init__(self, bits: Any, dtype: str) -> None:
        self.bits = bits
        self.dtype = dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.bits.shape)

    def numpy(self) -> Any:
        """An array of ml_dtypes' type over the same memory. TypeError if ml_dtypes does not know it."""
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
    """The NumPy dtype that ml_dtypes has under this name, or None."""
    try:
        import ml_dtypes
        import numpy as np
    except ImportError:
        return None
    kind = getattr(ml_dtypes, name, None)
    return None if kind is None else np.dtype(kind)


def small_float(dtype: Any) -> bool:
    """Tells whether a package registered this NumPy dtype (as ml_dtypes does), and not NumPy itself."""
    return bool(dtype.isbuiltin == 2 and dtype.itemsize in (1, 2, 4, 8))


def bits_of(array: Any) -> Any:
    """The same elements as unsigned integers; a copy where no such view is possible."""
    import numpy as np

    kind = np.dtype(f"u{array.dtype.itemsize}")
    return array.view(kind)


def fits_inline(array: Any) -> bool:
    return bool(array.nbytes <= _INLINE_BYTES)

"""Arrays of any dtype, shape and strides for the tests of operations, and their comparison with NumPy."""

from __future__ import annotations

from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
from forklift import Tensor
from hypothesis import strategies as st

REALS = ("float16", "float32", "float64")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
COMPLEX = ("complex64", "complex128")
NUMBERS = (*INTEGERS, *REALS, *COMPLEX)
ALL = ("bool", *NUMBERS)


def arrays(dtype: str, shape: tuple[int, ...]) -> st.SearchStrategy[np.ndarray[Any, Any]]:
    """Arrays of that shape as views: turned over, spread, transposed, or as they are."""

    def view(array: np.ndarray[Any, Any], kind: int) -> np.ndarray[Any, Any]:
        if kind == 1:
            return array[tuple(slice(None, None, -1) for _ in shape)]
        if kind == 2 and shape:
            return np.repeat(array, 2, axis=-1)[..., ::2]
        if kind == 3:
            return np.asfortranarray(array)
        return array

    values = st.floats(-100, 100, width=16) if dtype.startswith("float") else None
    if dtype.startswith("complex"):
        values = st.complex_numbers(max_magnitude=50, width=64)
    special = st.sampled_from([0.0, -0.0, np.inf, -np.inf, np.nan]) if dtype.startswith("float") else None
    if special is not None:
        assert values is not None
        values = values | special
    return st.builds(view, hnp.arrays(dtype, shape, elements=values), st.integers(0, 3))


def drawn(data: st.DataObject, dtypes: tuple[str, ...], **sizes: int) -> np.ndarray[Any, Any]:
    sizes = {"min_dims": 1, "max_dims": 3, "min_side": 0, "max_side": 6, **sizes}
    shape = data.draw(hnp.array_shapes(**sizes))
    return data.draw(arrays(data.draw(st.sampled_from(dtypes)), shape))


def same(ours: Tensor, theirs: Any) -> None:
    """Equal dtype, shape and elements."""
    theirs = np.asarray(theirs)
    got = ours.numpy()
    assert (got.dtype, got.shape) == (theirs.dtype, theirs.shape)
    np.testing.assert_array_equal(got, theirs)

"""Reductions and products of matrices against NumPy."""

from __future__ import annotations

import warnings
from typing import Any

import forklift
import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from forklift import Tensor, ops
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

NAMES = ("sum", "prod", "max", "min", "all", "any", "mean", "var", "std", "argmax", "argmin")
DTYPES = ("bool", "int8", "int32", "uint8", "uint64", "float32", "float64", "complex64")


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_reductions(name: str, data: st.DataObject) -> None:
    dtype = data.draw(
        st.sampled_from(DTYPES if name not in ("max", "min", "argmax", "argmin") else DTYPES[:-1])
    )
    # Products stay below what a float32 holds: ours are accumulated in float64, and overflow later.
    longest = 3 if name == "prod" else 7
    shape = data.draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=longest))
    elements = st.integers(0, 1 if dtype == "bool" else 2 if name == "prod" else 9)
    array = data.draw(hnp.arrays(dtype, shape, elements=elements))
    if data.draw(st.booleans()):
        array = np.asfortranarray(array)[..., ::-1] if shape else array
    axis: Any = None
    if shape and data.draw(st.booleans()):
        if name in ("argmax", "argmin"):
            axis = data.draw(st.integers(-len(shape), len(shape) - 1))
        else:
            axis = data.draw(hnp.valid_tuple_axes(len(shape)))
    keepdims = data.draw(st.booleans())
    numpy_function = getattr(np, name)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            expected = np.asarray(numpy_function(array, axis=axis, keepdims=keepdims))
        except ValueError:
            with pytest.raises(ValueError, match="no elements"):
                getattr(ops, name)(Tensor.from_numpy(array), axis=axis, keepdims=keepdims)
            return
    got = getattr(ops, name)(Tensor.from_numpy(array), axis=axis, keepdims=keepdims).numpy()
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    if expected.dtype.kind in "fc":
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
    else:
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("threads_worth", [10, 3_000_000])
def test_large_sums_are_accurate(threads_worth: int) -> None:
    array = np.full(threads_worth, 0.1, "float32")
    assert float(ops.sum(Tensor(array))) == pytest.approx(threads_worth * float(np.float32(0.1)), rel=1e-7)
    square = array[: threads_worth // 10 * 10].reshape(10, -1)
    for axis in (0, 1):
        expected = square.astype("float64").sum(axis=axis)
        np.testing.assert_allclose(ops.sum(Tensor(square), axis=axis).numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3, 4), (4, 5)),
        ((4,), (4,)),
        ((4,), (4, 5)),
        ((3, 4), (4,)),
        ((2, 3, 4), (4, 5)),
        ((2, 1, 3, 4), (5, 4, 6)),
        ((300, 200), (200, 100)),
        ((0, 3), (3, 2)),
        ((2, 0), (0, 3)),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8", "complex128", "float16"])
def test_matmul(a: tuple[int, ...], b: tuple[int, ...], dtype: str) -> None:
    rng = np.random.default_rng(1)
    left, right = (rng.integers(0, 5, shape).astype(dtype) for shape in (a, b))
    expected = left @ right
    got = ops.matmul(Tensor(left), Tensor(right)).numpy()
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    np.testing.assert_allclose(got, expected, rtol=1e-3)
    if len(a) > 1 and len(b) > 1:
        turned = (np.asfortranarray(left), right[..., ::-1][..., ::-1])
        np.testing.assert_allclose(ops.matmul(*map(Tensor.from_numpy, turned)).numpy(), expected, rtol=1e-3)


@pytest.mark.parametrize("dtype", ["int8", "int16", "float64", "complex64"])
@pytest.mark.parametrize("source", ["int8", "float32"])
def test_the_dtype_that_was_asked_for(source: str, dtype: str) -> None:
    array = np.arange(1, 5).astype(source)
    for name in ("sum", "prod"):
        expected = getattr(np, name)(array, dtype=dtype)
        got = getattr(ops, name)(Tensor(array), dtype=dtype)
        assert (got.dtype, got.item()) == (dtype, expected.item())


def test_matmul_writes_into_out() -> None:
    rng = np.random.default_rng(2)
    a, b = rng.random((3, 40, 30)), rng.random((30, 50))
    expected = a @ b
    whole = forklift.zeros([3, 40, 80], "float64")
    padded = whole[:, :, 20:70]  # rows with gaps
    assert ops.matmul(Tensor(a), Tensor(b), out=padded) is padded
    np.testing.assert_allclose(padded.numpy(), expected)
    assert not whole.numpy()[:, :, :20].any()
    assert not whole.numpy()[:, :, 70:].any()
    turned = forklift.zeros([50, 40], "float64").transpose(0, 1)
    np.testing.assert_allclose(ops.matmul(Tensor(a[0]), Tensor(b), out=turned).numpy(), expected[0])
    narrower = forklift.zeros([40, 50], "float32")
    np.testing.assert_allclose(
        ops.matmul(Tensor(a[0]), Tensor(b), out=narrower).numpy(), expected[0], rtol=1e-6
    )
    square = Tensor(rng.random((64, 64)))
    expected = square.numpy() @ square.numpy()
    ops.matmul(square, square, out=square)  # an operand
    np.testing.assert_allclose(square.numpy(), expected)
    stack = Tensor(rng.random((2, 64, 64)))
    expected = stack.numpy()[0] @ stack.numpy()[1]
    np.testing.assert_allclose(ops.matmul(stack[0], stack[1], out=stack[0]).numpy(), expected)
    for out, text in [
        (forklift.zeros([40, 50], "float64").as_readonly(), "read-only"),
        (forklift.zeros([50, 40], "float64"), "result's shape"),
        (forklift.zeros([40, 50], "int64"), "cannot hold"),
    ]:
        with pytest.raises(ValueError, match=text):
            ops.matmul(Tensor(a[0]), Tensor(b), out=out)

"""Operations against NumPy, over generated shapes, strides and dtypes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import forklift
import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from forklift import Tensor, ops
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ops_arrays import ALL, COMPLEX, INTEGERS, NUMBERS, REALS, arrays

# Ours, NumPy's, the dtypes.
UNARY: list[tuple[str, Callable[..., Any], tuple[str, ...]]] = [
    ("negative", np.negative, NUMBERS),
    ("positive", np.positive, NUMBERS),
    ("abs", np.abs, ALL),
    ("sign", np.sign, (*INTEGERS, *REALS)),
    ("square", np.square, NUMBERS),
    ("reciprocal", np.reciprocal, REALS),
    ("sqrt", np.sqrt, ALL),
    *((name, getattr(np, name), ALL) for name in ("exp", "log", "log10", "sin", "cos", "tan", "tanh")),
    *((name, getattr(np, name), (*INTEGERS, *REALS)) for name in ("exp2", "expm1", "log1p", "log2", "cbrt")),
    ("asin", np.arcsin, REALS),
    ("acos", np.arccos, REALS),
    ("atan", np.arctan, REALS),
    ("sinh", np.sinh, REALS),
    ("cosh", np.cosh, REALS),
    ("asinh", np.arcsinh, REALS),
    ("acosh", np.arccosh, REALS),
    ("atanh", np.arctanh, REALS),
    ("ceil", np.ceil, REALS),
    ("floor", np.floor, REALS),
    ("trunc", np.trunc, REALS),
    ("round", np.round, REALS),
    ("isnan", np.isnan, ALL),
    ("isinf", np.isinf, ALL),
    ("isfinite", np.isfinite, ALL),
    ("signbit", np.signbit, REALS),
    ("logical_not", np.logical_not, ALL),
    ("bitwise_invert", np.invert, ("bool", *INTEGERS)),
    ("real", np.real, COMPLEX),
    ("imag", np.imag, COMPLEX),
    ("conj", np.conj, NUMBERS),
]
BINARY: list[tuple[str, Callable[..., Any], tuple[str, ...]]] = [
    ("add", np.add, ALL),
    ("subtract", np.subtract, NUMBERS),
    ("multiply", np.multiply, ALL),
    ("divide", np.divide, ALL),
    ("floor_divide", np.floor_divide, (*INTEGERS, *REALS)),
    ("remainder", np.remainder, (*INTEGERS, *REALS)),
    ("pow", np.power, REALS),
    ("maximum", np.maximum, ("bool", *INTEGERS, *REALS)),
    ("minimum", np.minimum, ("bool", *INTEGERS, *REALS)),
    ("atan2", np.arctan2, REALS),
    ("hypot", np.hypot, REALS),
    ("copysign", np.copysign, REALS),
    ("logaddexp", np.logaddexp, REALS),
    ("equal", np.equal, ALL),
    ("not_equal", np.not_equal, ALL),
    *((name, getattr(np, name), ("bool", *INTEGERS, *REALS)) for name in ("less", "less_equal", "greater")),
    ("greater_equal", np.greater_equal, ("bool", *INTEGERS, *REALS)),
    *((name, getattr(np, name), ALL) for name in ("logical_and", "logical_or", "logical_xor")),
    *(
        (name, getattr(np, name), ("bool", *INTEGERS))
        for name in ("bitwise_and", "bitwise_or", "bitwise_xor")
    ),
    ("bitwise_left_shift", np.left_shift, INTEGERS),
    ("bitwise_right_shift", np.right_shift, INTEGERS),
]


def elements(dtype: str) -> dict[str, Any]:
    if dtype.startswith(("float", "complex")):
        return {"allow_subnormal": False, "width": {"16": 16, "32": 32}.get(dtype[5:], 64)}
    return {}


def assert_same(ours: Tensor, theirs: Any, what: str) -> None:
    theirs = np.asarray(theirs)
    got = ours.numpy()
    assert got.dtype == theirs.dtype, what
    assert got.shape == theirs.shape, what
    if theirs.dtype.kind in "fc":
        # Vectorised functions are within 4 units in the last place, and so are NumPy's.
        accuracy = {"float16": 2e-3, "float32": 2e-6, "complex64": 2e-5}.get(str(theirs.dtype), 1e-12)
        # float16 is computed in float32, where NumPy may round in between.
        np.testing.assert_allclose(got, theirs, rtol=accuracy, atol=accuracy * 0.1, err_msg=what)
    else:
        np.testing.assert_array_equal(got, theirs, err_msg=what)


@pytest.mark.parametrize(("name", "numpy_function", "dtypes"), UNARY, ids=[row[0] for row in UNARY])
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_unary(name: str, numpy_function: Any, dtypes: tuple[str, ...], data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(dtypes))
    shape = data.draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=6))
    array = data.draw(arrays(dtype, shape))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = numpy_function(array)
        if dtype.startswith("complex") and not np.isfinite(expected).all():
            return  # of complex numbers the libraries agree on no infinite result
        assert_same(getattr(ops, name)(Tensor.from_numpy(array)), expected, f"{name} {dtype}")


@pytest.mark.parametrize(("name", "numpy_function", "dtypes"), BINARY, ids=[row[0] for row in BINARY])
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_binary(name: str, numpy_function: Any, dtypes: tuple[str, ...], data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(dtypes))
    other = data.draw(st.sampled_from(dtypes))
    shapes = data.draw(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=4, max_side=5)).input_shapes
    a, b = data.draw(arrays(dtype, shapes[0])), data.draw(arrays(other, shapes[1]))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expected = numpy_function(a, b)
        except TypeError:  # uint64 beside int64 for operations on bits
            with pytest.raises(ValueError, match="no such operation"):
                getattr(ops, name)(Tensor.from_numpy(a), Tensor.from_numpy(b))
            return
        if np.asarray(expected).dtype.kind == "c" and not np.isfinite(expected).all():
            return
        ours = getattr(ops, name)(Tensor.from_numpy(a), Tensor.from_numpy(b))
        if name in ("floor_divide", "remainder") and np.asarray(expected).dtype.kind == "f":
            # A quotient that is nearly whole may be rounded either way.
            assert ours.dtype == str(np.asarray(expected).dtype)
            return
        assert_same(ours, expected, f"{name} {dtype} {other}")


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_casts(data: st.DataObject) -> None:
    source, target = data.draw(st.sampled_from(ALL)), data.draw(st.sampled_from(ALL))
    array = data.draw(
        hnp.arrays(
            source,
            hnp.array_shapes(max_dims=3, max_side=5),
            elements=st.integers(0, 1) if source == "bool" else st.integers(0, 100),
        )
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert_same(ops.astype(Tensor.from_numpy(array), target), array.astype(target), f"{source} {target}")


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_where_and_clip(data: st.DataObject) -> None:
    shapes = data.draw(hnp.mutually_broadcastable_shapes(num_shapes=3, max_dims=3, max_side=4)).input_shapes
    mask = data.draw(hnp.arrays("bool", shapes[0]))
    dtype = data.draw(st.sampled_from(NUMBERS))
    a, b = data.draw(arrays(dtype, shapes[1])), data.draw(arrays(dtype, shapes[2]))
    assert_same(ops.where(Tensor(mask), Tensor(a), Tensor(b)), np.where(mask, a, b), dtype)
    if dtype in REALS:
        assert_same(ops.clip(Tensor(a), -3.0, 5.0), np.clip(a, -3.0, 5.0), dtype)


def test_operators_and_numbers() -> None:
    array = np.array([1.5, -2.0, 4.0], "float32")
    x = Tensor(array)
    for ours, theirs in [
        (x + 1, array + 1),
        (1 - x, 1 - array),
        (2 / x, 2 / array),
        (x // 2, array // 2),
        (x % 2, array % 2),
        (x**2, array**2),
        (2**x, 2**array),
        (-x, -array),
        (abs(x), abs(array)),
        (x == 4, array == 4),
        (x < 0, array < 0),
        (x + array, array + array),
        (array + x, array + array),
        (np.exp(x), np.exp(array)),
        (x @ x, array @ array),
        (x + 1j, array + 1j),
        ((x > 0) & (x < 2), (array > 0) & (array < 2)),
        (~(x > 0), ~(array > 0)),
        (Tensor([3]) << 2, np.array([12])),
    ]:
        assert isinstance(ours, Tensor)
        assert_same(ours, theirs, str(theirs))
    kept = x
    x += 1
    x *= 2
    assert x is kept
    assert x.tolist() == [5.0, -2.0, 10.0]
    assert hash(x) == hash(kept)
    with pytest.raises(TypeError):
        x + "text"  # type: ignore[operator]
    with pytest.raises(TypeError, match="a Tensor, an array or a number is needed, not str"):
        ops.log("text")  # type: ignore[arg-type]
    with pytest.raises(OverflowError):
        x + 2**70


def test_bfloat16() -> None:
    x = Tensor([1.0, 2.5, -3.0], "bfloat16")
    assert (x + 1).dtype == "bfloat16"
    assert ops.exp(x).tolist() == pytest.approx([2.71875, 12.1875, 0.0498], rel=4e-3)
    assert ops.sum(x).item() == 0.5


def test_numpy_functions_with_out_and_mixed() -> None:
    x, out = Tensor([1.0, 4.0]), forklift.zeros([2])
    assert np.sqrt(x, out=out) is out
    assert out.tolist() == [1.0, 2.0]
    total = np.add.reduce(x)
    assert float(total) == 5.0
    array = np.zeros(2, "float32")
    np.add(x, 1, out=array)
    assert array.tolist() == [2.0, 5.0]


def test_bad_input() -> None:
    x = Tensor([1.0, 2.0])
    for call, error, text in [
        (
            lambda: ops.add(x, Tensor([1.0, 2.0, 3.0])),
            ValueError,
            r"add\(float32\(2,\), float32\(3,\)\): shapes",
        ),
        (lambda: ops.bitwise_and(x, x), ValueError, "no such operation on float32"),
        (lambda: ops.sum(x, axis=1), ValueError, "axis 1 is out of range for 1 dimensions"),
        (lambda: ops.sum(x, axis=(0, -1)), ValueError, "named twice"),
        (lambda: ops.add(x, 1, out=x.as_readonly()), ValueError, "read-only"),
        (lambda: ops.add(x, 1, out=forklift.zeros([3])), ValueError, "result's shape"),
        (lambda: ops.add(x, 1, out=np.zeros(2)), TypeError, "out= must be a forklift.Tensor"),
        (lambda: ops.max(forklift.zeros([0])), ValueError, "no elements"),
        (lambda: ops.matmul(x, Tensor([[1.0, 2.0, 3.0]])), ValueError, "inner lengths differ"),
        (lambda: Tensor([1]) ** Tensor([-1]), ValueError, "negative integer powers"),
        (lambda: Tensor([2], "int32") ** Tensor([-1], "int8"), ValueError, "negative integer powers"),
        (lambda: pow(x, 2, 3), TypeError, "unsupported"),
        (lambda: Tensor(["a"]), TypeError, "holds bool, integers, floats or complex"),
        (lambda: Tensor(300, "uint8"), OverflowError, "300 out of bounds for uint8"),
        (lambda: ops.asarray([[-1]], dtype="uint64"), OverflowError, "out of bounds|to unsigned"),
        (lambda: Tensor(2**70, "int64"), OverflowError, "too large"),
        (lambda: Tensor(1.0, "float99"), TypeError, "unknown dtype 'float99'"),
    ]:
        with pytest.raises(error, match=text):
            call()


def test_division_by_zero_and_nan_are_no_errors() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (Tensor([1.0, -1.0]) / 0).tolist() == [np.inf, -np.inf]
        assert (Tensor([1]) // Tensor([0])).tolist() == [0]
        assert np.isnan(float(ops.log(Tensor(-1.0))))
        assert np.isnan(float(ops.max(Tensor([1.0, np.nan]))))


def test_making_tensors() -> None:
    for made, dtype, shape in [
        (Tensor(2.0), "float32", ()),
        (Tensor([1, 2]), "int64", (2,)),
        (Tensor([[True]]), "bool", (1, 1)),
        (Tensor(1j), "complex64", ()),
        (Tensor([[1, 2]], "float16"), "float16", (1, 2)),
        (Tensor(np.zeros(3)), "float64", (3,)),
        (Tensor([1.5], np.float64), "float64", (1,)),
        (Tensor(Tensor([1.5]), "Int32"), "int32", (1,)),
        (forklift.tensor([2.0]), "float32", (1,)),
        (forklift.zeros(3, float), "float32", (3,)),
    ]:
        assert (made.dtype, made.shape) == (dtype, shape)
        assert made.is_shared


@pytest.mark.slow
def test_results_that_no_cache_holds() -> None:
    """Their stores go past the caches, which must not show: other alignments, numbers, in place, gaps."""
    x = np.arange(12_000_003, dtype="float32")
    tensor = Tensor(x)
    assert np.array_equal(ops.add(tensor, tensor).numpy(), x + x)
    assert np.array_equal(ops.subtract(3, tensor[1:]).numpy(), 3 - x[1:])
    assert np.array_equal(ops.sqrt(tensor).numpy(), np.sqrt(x))
    out = forklift.zeros([x.size + 1])
    ops.multiply(tensor, 2, out=out[1:])
    assert out[0].item() == 0
    assert np.array_equal(out.numpy()[1:], x * 2)
    ops.add(tensor, tensor, out=tensor)
    assert np.array_equal(tensor.numpy(), x + x)
    square = x[: 3464 * 3464].reshape(3464, 3464)
    assert np.array_equal((Tensor.from_numpy(square)[:, :3000] * 2).numpy(), square[:, :3000] * 2)
    assert np.array_equal((Tensor(square).transpose(0, 1) * 2).numpy(), square.T * 2)


def test_tanh_is_one_where_it_rounds_to_one() -> None:
    x = np.float32([np.inf, -np.inf, 9.02, -1e30, np.nan, 0.0, -0.0, 1e-40])
    got = ops.tanh(Tensor(x)).numpy()
    np.testing.assert_array_equal(got, np.float32([1, -1, 1, -1, np.nan, 0, 0, 1e-40]))
    assert np.signbit(got[6])
    x = np.linspace(-10, 10, 100_001, dtype="float32")
    exact = np.tanh(x.astype("float64"))
    error = np.abs(ops.tanh(Tensor(x)).numpy() - exact) / np.spacing(np.abs(exact).astype("float32"))
    assert error.max() <= 7
    # An element's value does not depend on what lies beside it.
    beside = np.where(np.arange(x.size) % 7 == 0, np.float32(20), x)
    assert np.array_equal(
        ops.tanh(Tensor(x)).numpy()[beside == x], ops.tanh(Tensor(beside)).numpy()[beside == x]
    )

"""Sorting, searching, sets and accumulation, against NumPy, over generated shapes, strides and dtypes."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from forklift import Tensor, ops
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ops_arrays import ALL, COMPLEX, INTEGERS, REALS, drawn, same

RELAXED = settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
SORTABLE = ("bool", *INTEGERS, *REALS, *COMPLEX)


@RELAXED
@given(data=st.data())
def test_sort_and_argsort(data: st.DataObject) -> None:
    array = drawn(data, SORTABLE)
    axis = data.draw(st.integers(-array.ndim, array.ndim - 1))
    x = Tensor.from_numpy(array)
    same(ops.sort(x, axis=axis), np.sort(array, axis=axis, kind="stable"))
    same(ops.argsort(x, axis=axis), np.argsort(array, axis=axis, kind="stable"))


@RELAXED
@given(data=st.data())
def test_descending_order_is_stable_and_has_nan_last(data: st.DataObject) -> None:
    array = drawn(data, SORTABLE, max_dims=1)
    order = ops.argsort(Tensor.from_numpy(array), descending=True).numpy()
    values = array[order]
    same(ops.sort(Tensor.from_numpy(array), descending=True), values)
    nan = np.isnan(array)
    numbers = values[: np.count_nonzero(~nan)]
    assert not np.isnan(numbers).any()
    for before, after, i, j in zip(numbers, numbers[1:], order, order[1:], strict=False):
        a, b = ((v.real, v.imag) for v in (before, after))
        assert a > b or (a == b and i < j)


@pytest.mark.parametrize("dtype", ["int32", "float64", "uint8", "float16", "complex64"])
@pytest.mark.parametrize("descending", [False, True])
def test_a_long_line(dtype: str, descending: bool) -> None:
    most = 100 if dtype in ("uint8", "float16") else 100_000
    array = np.random.default_rng(1).integers(-most, most, 300_001).astype(dtype)
    if dtype.startswith("float"):
        array[::1000] = np.nan
    expected = np.sort(array, kind="stable")  # the other kind of NumPy 2.4 leaves float16 with NaN unsorted
    order = np.argsort(array, kind="stable")
    if descending:
        sign = -array.astype("int64") if dtype in ("int32", "uint8") else -array
        order = np.argsort(sign, kind="stable")
        expected = array[order]
    same(ops.sort(Tensor(array), descending=descending), expected)
    same(ops.argsort(Tensor(array), descending=descending), order)
    both = np.stack([array, array[::-1]], axis=1)  # two lines, far apart
    same(ops.sort(Tensor(both), axis=0), np.sort(both, axis=0, kind="stable"))


def test_bfloat16_and_zeros() -> None:
    x = ops.astype(Tensor([3.0, -1.0, float("inf"), float("nan"), -2.5, 0.0]), "bfloat16")
    result = ops.sort(x).tolist()
    assert result[:5] == [-2.5, -1.0, 0.0, 3.0, float("inf")]
    assert np.isnan(result[5])
    assert ops.argsort(x).tolist() == [4, 1, 5, 0, 2, 3]
    assert ops.argsort(Tensor([0.0, -0.0, 0.0])).tolist() == [0, 1, 2]
    assert np.signbit(ops.sort(Tensor([0.0, -0.0])).numpy()).tolist() == [True, False]


@RELAXED
@given(data=st.data())
def test_searchsorted(data: st.DataObject) -> None:
    line = drawn(data, (*INTEGERS, *REALS), max_dims=1, max_side=20)
    values = drawn(data, (str(line.dtype), "int16"))
    side: Any = data.draw(st.sampled_from(["left", "right"]))
    sorter = np.argsort(line, kind="stable")
    expected = np.searchsorted(line[sorter], values, side=side)
    same(ops.searchsorted(Tensor(line[sorter]), Tensor.from_numpy(values), side=side), expected)
    same(ops.searchsorted(Tensor(line), Tensor(values), side=side, sorter=Tensor(sorter)), expected)


@RELAXED
@given(data=st.data())
def test_isin(data: st.DataObject) -> None:
    array, values = drawn(data, ALL), drawn(data, ALL)
    common = np.result_type(array, values)
    invert = data.draw(st.booleans())
    expected = np.isin(array.astype(common), values.astype(common), invert=invert)
    same(ops.isin(Tensor.from_numpy(array), Tensor.from_numpy(values), invert=invert), expected)


@RELAXED
@given(data=st.data())
def test_unique(data: st.DataObject) -> None:
    array = drawn(data, SORTABLE, min_dims=0)
    x = Tensor.from_numpy(array)
    expected = np.unique(array, return_index=True, return_inverse=True, return_counts=True, equal_nan=False)
    found = ops.unique_all(x)
    for ours, theirs in zip(found, expected, strict=True):
        same(ours, theirs.reshape(array.shape) if ours is found.inverse_indices else theirs)
    same(ops.unique_values(x), expected[0])
    for part, names in [
        (ops.unique_counts(x), ("values", "counts")),
        (ops.unique_inverse(x), ("values", "inverse_indices")),
    ]:
        assert part._fields == names
        for name in names:
            same(getattr(part, name), getattr(found, name).numpy())


@RELAXED
@given(data=st.data())
def test_nonzero(data: st.DataObject) -> None:
    array = drawn(data, ALL)
    x = Tensor.from_numpy(array)
    expected = np.nonzero(array)
    found = ops.nonzero(x)
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        same(ours, theirs)
    axis = data.draw(st.none() | st.integers(-array.ndim, array.ndim - 1))
    keepdims = data.draw(st.booleans())
    same(
        ops.count_nonzero(x, axis=axis, keepdims=keepdims),
        np.count_nonzero(array, axis=axis, keepdims=keepdims),
    )


@pytest.mark.parametrize("name", ["sum", "prod"])
@RELAXED
@given(data=st.data())
def test_accumulation(name: str, data: st.DataObject) -> None:
    array = drawn(data, ALL)
    axis = data.draw(st.integers(-array.ndim, array.ndim - 1))
    initial = data.draw(st.booleans())
    dtype = data.draw(st.none() | st.sampled_from(["int16", "float64", "complex128"]))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        if dtype == "int16" and array.dtype.kind in "fc":
            array = np.nan_to_num(array.real, nan=0, posinf=9, neginf=-9)
        # np.cumsum and cumprod accumulate in the dtype itself.
        function = np.cumsum if name == "sum" else np.cumprod
        result_dtype = function(array, axis=axis, dtype=dtype).dtype
        wide = {"f": "float64", "c": "complex128"}.get(result_dtype.kind, result_dtype)
        expected = function(array.astype(result_dtype).astype(wide), axis=axis).astype(result_dtype)
        if initial:
            shape = list(array.shape)
            shape[axis] = 1
            first = np.full(shape, 0 if name == "sum" else 1, result_dtype)
            expected = np.concatenate([first, expected], axis=axis)
        got = getattr(ops, f"cumulative_{name}")(
            Tensor.from_numpy(array), axis=axis, dtype=dtype, include_initial=initial
        ).numpy()
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    if expected.dtype.kind == "c":
        finite = np.isfinite(expected)  # libraries agree on no infinite product
        np.testing.assert_allclose(got[finite], expected[finite], rtol=1e-5, atol=1e-5)
    else:
        np.testing.assert_allclose(got, expected, rtol=1e-3 if expected.dtype == "float16" else 1e-6)


@RELAXED
@given(data=st.data())
def test_diff(data: st.DataObject) -> None:
    array = drawn(data, ("bool", "int8", "uint32", "int64", "float64"))
    axis = data.draw(st.integers(-array.ndim, array.ndim - 1))
    n = data.draw(st.integers(0, 3))
    with np.errstate(all="ignore"):
        same(ops.diff(Tensor.from_numpy(array), axis=axis, n=n), np.diff(array, axis=axis, n=n))
        same(
            ops.diff(Tensor(array), axis=axis, prepend=Tensor(array), append=Tensor(array)),
            np.diff(array, axis=axis, prepend=array, append=array),
        )


def test_results_of_operations_that_are_on_their_way() -> None:
    rng = np.random.default_rng(2)
    array = rng.standard_normal(500_000)
    x = Tensor(array) * 2
    same(ops.sort(x * 1), np.sort(array * 2))
    same(ops.unique_values(ops.astype(x, "int8")), np.unique((array * 2).astype("int8")))
    same(ops.nonzero(x > 1)[0], np.nonzero(array * 2 > 1)[0])
    same(ops.cumulative_sum(ops.astype(x, "int32")), np.cumsum((array * 2).astype("int32")))


def test_bad_input() -> None:
    x = Tensor([[1.0, 2.0]])
    for call, text in [
        (lambda: ops.sort(x, axis=2), r"sort\(float32\(1, 2\)\): axis 2 is out of range"),
        (lambda: ops.sort(Tensor(1.0)), "without dimensions"),
        (lambda: ops.argsort(x, axis=-3), "axis -3"),
        (lambda: ops.searchsorted(x, x), "not one dimension"),
        (lambda: ops.searchsorted(x[0], x, side="middle"), "'middle'"),
        (lambda: ops.searchsorted(x[0], x, sorter=Tensor([1])), "sorter"),
        (lambda: ops.nonzero(Tensor(1.0)), "without dimensions"),
        (lambda: ops.count_nonzero(x, axis=5), "axis 5"),
        (lambda: ops.cumulative_sum(x), "axis must be named"),
        (lambda: ops.cumulative_sum(x[0], dtype="bool"), "bool"),
        (lambda: ops.diff(x, n=-1), "n is -1"),
    ]:
        with pytest.raises(ValueError, match=text):
            call()

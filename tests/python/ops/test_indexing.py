"""Elements by their indices, and tensors rearranged, against NumPy."""

from __future__ import annotations

from typing import Any

import forklift
import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from forklift import Tensor, ops
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ops_arrays import ALL, drawn, same

RELAXED = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


@st.composite
def keys(draw: Any, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """What NumPy takes between the brackets."""
    dims = draw(hnp.broadcastable_shapes((2, 3), max_dims=2, max_side=3))
    result: list[Any] = []
    dim = 0
    ellipsis = False
    while dim < len(shape):
        kinds = ["slice", "none", "stop"]
        if shape[dim] > 0:
            kinds += ["number", "array", "array", "list"]
        if not ellipsis:
            kinds += ["ellipsis"]
        kind = draw(st.sampled_from([*kinds, "mask"]))
        bounds = st.integers(-shape[dim], shape[dim] - 1) if shape[dim] else st.nothing()
        if kind == "stop":
            break
        if kind == "none":
            if sum(entry is None for entry in result) < 2:
                result.append(None)
            continue
        if kind == "ellipsis":
            ellipsis = True
            result.append(Ellipsis)
            dim += draw(st.integers(0, len(shape) - dim))
            continue
        if kind == "mask":
            most = draw(st.integers(1, len(shape) - dim))
            result.append(draw(hnp.arrays("bool", shape[dim : dim + most])))
            dim += most
            continue
        if kind == "slice":
            result.append(draw(st.slices(shape[dim])))
        elif kind == "number":
            result.append(draw(bounds))
        elif kind == "list":
            result.append(draw(st.lists(bounds, min_size=1, max_size=3)))
        else:
            own = draw(st.sampled_from([dims, dims[1:], ()]))
            result.append(draw(hnp.arrays(draw(st.sampled_from(["int64", "int8"])), own, elements=bounds)))
        dim += 1
    return tuple(result)


def ours(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """The same with tensors instead of arrays."""
    return tuple(Tensor.from_numpy(k) if isinstance(k, np.ndarray) else k for k in key)


@RELAXED
@given(data=st.data())
def test_getting(data: st.DataObject) -> None:
    array = drawn(data, ALL, max_dims=4, max_side=4)
    key = data.draw(keys(array.shape))
    x = Tensor.from_numpy(array)
    try:
        expected = array[key]
    except IndexError:
        with pytest.raises(IndexError):
            x[ours(key)]
        return
    same(x[ours(key)], expected)
    same(x[key], expected)


@RELAXED
@given(data=st.data())
def test_setting(data: st.DataObject) -> None:
    array = drawn(data, ("int32", "float64", "bool", "complex64"), max_dims=4, max_side=4).copy()
    key = data.draw(keys(array.shape))
    x = Tensor(array)
    number = data.draw(st.booleans())
    try:
        part = array[key]
    except IndexError:
        with pytest.raises(IndexError):
            x[ours(key)] = 1
        return
    value: Any = 1
    if not number:
        value = (np.arange(part.size) % 7 + 1).reshape(part.shape).astype(array.dtype)
        if value.ndim and data.draw(st.booleans()):
            value = value[:1]  # which is broadcast, if there is one
        if value.size == 0 and part.size:
            value = np.ones((), array.dtype)
    array[key] = value
    x[ours(key)] = Tensor.from_numpy(value) if data.draw(st.booleans()) and not number else value
    same(x, array)


def test_casting_and_sharing() -> None:
    x = forklift.zeros([3, 4])
    x[1] = np.arange(4, dtype="int8")
    x[:, 0] = Tensor([7, 8, 9])
    x[[0, 2], 3] = [1.5, 2.5]
    assert x.tolist() == [[7.0, 0.0, 0.0, 1.5], [8.0, 1.0, 2.0, 3.0], [9.0, 0.0, 0.0, 2.5]]
    x[x > 5] = 0
    x[0] = x[1]  # of the same memory
    x[:, 1:] = x[:, :-1]
    assert x.tolist() == [[0.0, 0.0, 1.0, 2.0], [0.0, 0.0, 1.0, 2.0], [0.0, 0.0, 0.0, 0.0]]
    whole = Tensor([1, 2, 3])
    for value in (Tensor([1.5]), np.float64(2.5), 2.5):
        for key in (slice(None), [0, 1]):
            with pytest.raises(ValueError, match=r"float|number|fit"):
                whole[key] = value
    whole[Tensor([0, 0, 0])] = Tensor([4, 5, 6])
    assert whole.tolist() == [6, 2, 3]
    with pytest.raises(ValueError, match="read-only"):
        whole.as_readonly()[[0]] = 1
    with pytest.raises(ValueError, match="does not broadcast"):
        whole[[0, 1]] = Tensor([1, 2, 3])


def test_errors_of_indices() -> None:
    x = forklift.zeros([2, 3])
    for key, text in [
        ((0, 5), "index 5 is out of range for axis 1 of length 3"),
        ((slice(None), Tensor([0, -4])), "index -4 is out of range for axis 1 of length 3"),
        ((0, 0, 0), "too many indices for 2 dimensions"),
        ((..., ...), "one Ellipsis"),
        (np.array([True, False, True]), "axis 0, which has 2"),
        ((np.array([0, 1]), np.array([0, 1, 2])), "do not broadcast"),
        (Tensor([0.5]), "float32 is no index"),
        ("a", "not by str"),
    ]:
        with pytest.raises(IndexError, match=text):
            x[key]
        with pytest.raises(IndexError, match=text):
            x[key] = 1
    with pytest.raises(IndexError, match="index 3 is out of range"):
        ops.take(x, Tensor([3]), axis=1)
    with pytest.raises(IndexError, match="index 2 is out of range for axis 0 of length 2"):
        ops.take_along_axis(x, Tensor([[2]]), axis=0)


def test_large_ones() -> None:
    array = np.random.default_rng(3).standard_normal((1000, 400)).astype("float32")
    x = Tensor(array) * 1
    rows = np.random.default_rng(4).integers(-1000, 1000, 5000)
    same(x[Tensor(rows)], array[rows])
    same(x[:, Tensor(rows % 400)], array[:, rows % 400])
    same(x[x > 0], array[array > 0])
    y = x * 1
    y[y < 0] = 0
    same(y, np.maximum(array, 0))
    y[Tensor(rows)] = 1.0
    expected = np.maximum(array, 0)
    expected[rows] = 1
    same(y, expected)


@RELAXED
@given(data=st.data())
def test_take(data: st.DataObject) -> None:
    array = drawn(data, ALL, min_side=1)
    axis = data.draw(st.none() | st.integers(-array.ndim, array.ndim - 1))
    length = array.size if axis is None else array.shape[axis]
    shape = data.draw(hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=4))
    indices = data.draw(hnp.arrays("int64", shape, elements=st.integers(-length, length - 1)))
    x = Tensor.from_numpy(array)
    same(ops.take(x, Tensor(indices), axis=axis), np.take(array, indices, axis=axis))
    along = data.draw(st.integers(-array.ndim, array.ndim - 1))
    lines = list(array.shape)
    lines[along] = data.draw(st.integers(0, 4))
    length = array.shape[along]
    own = data.draw(hnp.arrays("int32", tuple(lines), elements=st.integers(-length, length - 1)))
    expected = np.take_along_axis(array, own, axis=along)
    same(ops.take_along_axis(x, Tensor(own), axis=along), expected)


@RELAXED
@given(data=st.data())
def test_copies(data: st.DataObject) -> None:
    array = drawn(data, ALL)
    x = Tensor.from_numpy(array)
    axis = data.draw(st.none() | st.integers(-array.ndim, array.ndim - 1))
    count = data.draw(st.integers(0, 3))
    same(ops.repeat(x, count, axis=axis), np.repeat(array, count, axis=axis))
    length = array.size if axis is None else array.shape[axis]
    counts = data.draw(hnp.arrays("int64", (length,), elements=st.integers(0, 3)))
    same(ops.repeat(x, Tensor(counts), axis=axis), np.repeat(array, counts, axis=axis))
    shift = data.draw(st.integers(-9, 9))
    same(ops.roll(x, shift, axis=axis), np.roll(array, shift, axis=axis))
    both = tuple(range(array.ndim))
    same(ops.roll(x, [shift] * array.ndim, axis=both), np.roll(array, [shift] * array.ndim, axis=both))
    times = tuple(data.draw(st.lists(st.integers(0, 3), max_size=4)))
    same(ops.tile(x, times), np.tile(array, times))


@RELAXED
@given(data=st.data())
def test_views(data: st.DataObject) -> None:
    array = drawn(data, ALL, min_dims=2)
    x = Tensor.from_numpy(array)
    axes = st.permutations(range(array.ndim)).map(lambda order: order[:2])
    source, destination = data.draw(axes), data.draw(axes)
    same(ops.moveaxis(x, source, destination), np.moveaxis(array, source, destination))
    same(ops.matrix_transpose(x), np.swapaxes(array, -1, -2))
    axis = data.draw(st.integers(-array.ndim, array.ndim - 1))
    parts = ops.unstack(x, axis=axis)
    assert len(parts) == array.shape[axis]
    for i, part in enumerate(parts):
        same(part, np.take(array, i, axis=axis))
    k = data.draw(st.integers(-7, 7))
    same(ops.tril(x, k=k), np.tril(array, k=k))
    same(ops.triu(x, k=k), np.triu(array, k=k))
    shapes = data.draw(hnp.mutually_broadcastable_shapes(num_shapes=3, max_dims=3)).input_shapes
    several = [np.zeros(shape, "int8") for shape in shapes]
    for ours_, theirs in zip(ops.broadcast_arrays(*several), np.broadcast_arrays(*several), strict=True):
        same(ours_, theirs)


@pytest.mark.parametrize("indexing", ["xy", "ij"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_meshgrid(count: int, indexing: Any) -> None:
    lines = [np.arange(i + 2, dtype="float32") for i in range(count)]
    expected = np.meshgrid(*lines, indexing=indexing)
    for got, theirs in zip(ops.meshgrid(*lines, indexing=indexing), expected, strict=True):
        same(got, theirs)
        assert not got.readonly


def test_new_ones() -> None:
    same(ops.zeros([2, 3]), np.zeros((2, 3), "float32"))
    same(ops.ones(3, dtype="int8"), np.ones(3, "int8"))
    assert (ops.empty([2], dtype="bool").dtype, ops.empty([2]).shape) == ("bool", (2,))
    x = Tensor(np.zeros((2, 3), "int16"))
    same(ops.zeros_like(x), np.zeros((2, 3), "int16"))
    same(ops.ones_like(x, dtype="complex64"), np.ones((2, 3), "complex64"))
    same(ops.full_like(x, 7), np.full((2, 3), 7, "int16"))
    assert ops.empty_like(x).shape == (2, 3)
    for k in (-9, -1, 0, 2, 9):
        same(ops.eye(3, 4, k=k), np.eye(3, 4, k=k, dtype="float32"))
    for k in (2**63, -(2**70)):  # beyond each matrix
        same(ops.eye(2, k=k), np.zeros((2, 2), "float32"))
        same(ops.tril(np.ones((2, 2)), k=k), np.full((2, 2), float(k > 0)))
        same(ops.triu(np.ones((2, 2)), k=k), np.full((2, 2), float(k < 0)))
    same(ops.eye(2, dtype="bool"), np.eye(2, dtype="bool"))


def test_a_mask_without_elements_names_none() -> None:
    nothing = np.zeros(0, bool)
    for array in (np.ones(1), np.ones((3, 2))):
        same(Tensor(array)[Tensor(nothing)], array[nothing])
    with pytest.raises(IndexError, match="another length than axis 1"):
        Tensor(np.ones((2, 2)))[Tensor(np.zeros((0, 3), bool))]


@pytest.mark.parametrize("dtype", ["int32", "float32", "complex64", "bool"])
def test_sums_of_products(dtype: str) -> None:
    rng = np.random.default_rng(5)
    a, b = (rng.integers(0, 4, shape).astype(dtype) for shape in ((2, 3, 4), (3, 4)))
    if dtype == "complex64":
        a = (a * (1 + 2j)).astype(dtype)
    for axis in (-1, -2):
        product = np.conj(a) * b
        expected = product.any(axis=axis) if dtype == "bool" else product.sum(axis=axis, dtype=dtype)
        same(ops.vecdot(Tensor(a), Tensor(b), axis=axis), expected)
    if dtype == "bool":
        return
    for axes in (0, 1, 2, ([1, 2], [0, 1]), ([2], [1]), ([-1, 1], [-1, 0])):
        right = b.T if axes == 1 else b
        got = ops.tensordot(Tensor(a), Tensor(right), axes=axes)
        same(got, np.tensordot(a, right, axes=axes).astype(dtype))


def test_dtypes() -> None:
    x = forklift.zeros([2], dtype="int8")
    assert ops.result_type(x, "float32") == "float32"
    assert ops.result_type(x, 2.5, np.zeros(1, "uint8")) == "float64"
    assert ops.result_type(1, True) == "int64"
    for source in ALL:
        for target in ALL:
            assert ops.can_cast(source, target) == np.can_cast(source, target), (source, target)
    assert ops.can_cast(x, "int16")


def test_bad_input() -> None:
    x = forklift.zeros([2, 3])
    line = x[0]
    for call, text in [
        (lambda: ops.repeat(x, -1), "-1 repetitions"),
        (lambda: ops.repeat(x, Tensor([1, 2]), axis=1), "does not fit 3 elements"),
        (lambda: ops.roll(x, [1, 2]), "as many axes"),
        (lambda: ops.tile(x, [-1]), "-1 repetitions"),
        (lambda: ops.moveaxis(x, [0, 0], [0, 1]), "named twice"),
        (lambda: ops.matrix_transpose(line), "two dimensions"),
        (lambda: ops.tril(line), "two dimensions"),
        (lambda: ops.unstack(x, axis=2), "axis 2"),
        (lambda: ops.broadcast_arrays(x, forklift.zeros([2])), "do not broadcast"),
        (lambda: ops.meshgrid(x), "one dimension"),
        (lambda: ops.meshgrid(line, indexing="zz"), "'zz'"),
        (lambda: ops.vecdot(x, forklift.zeros([2])), "lengths differ"),
        (lambda: ops.tensordot(x, x, axes=1), "different lengths"),
        (lambda: ops.tensordot(x, x, axes=([0], [0, 1])), "different numbers of axes"),
        (lambda: ops.take(x, Tensor([0.5])), "no integers"),
    ]:
        with pytest.raises((ValueError, IndexError), match=text):
            call()

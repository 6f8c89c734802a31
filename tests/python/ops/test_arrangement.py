"""Tensors of other shapes, of several parts, and new ones, against NumPy."""

from __future__ import annotations

from typing import Any

import forklift
import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from forklift import Tensor, ops
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

RELAXED = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


def same(ours: Tensor, theirs: Any) -> None:
    theirs = np.asarray(theirs)
    got = ours.numpy()
    assert (got.dtype, got.shape) == (theirs.dtype, theirs.shape)
    np.testing.assert_array_equal(got, theirs)


@RELAXED
@given(data=st.data())
def test_concat_and_stack(data: st.DataObject) -> None:
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    parts = []
    for _ in range(data.draw(st.integers(1, 3))):
        own = list(shape)
        own[axis] = data.draw(st.integers(0, 3))
        parts.append(
            data.draw(hnp.arrays(data.draw(st.sampled_from(["int8", "float32", "bool"])), tuple(own)))
        )
    parts = [np.nan_to_num(part) for part in parts]
    same(ops.concat([Tensor(part) for part in parts], axis=axis), np.concatenate(parts, axis=axis))
    same(ops.concat([Tensor(part) for part in parts], axis=None), np.concatenate(parts, axis=None))
    alike = [parts[0], parts[0]]
    axis = data.draw(st.integers(-len(shape) - 1, len(shape)))
    same(ops.stack([Tensor(part) for part in alike], axis=axis), np.stack(alike, axis=axis))


@RELAXED
@given(data=st.data())
def test_shapes(data: st.DataObject) -> None:
    array = data.draw(hnp.arrays("int32", hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)))
    turned = array.T
    x = Tensor.from_numpy(turned)
    same(ops.reshape(x, [turned.size]), turned.reshape(-1))
    same(ops.flip(x), np.flip(turned))
    axis = data.draw(st.integers(-turned.ndim - 1, turned.ndim))
    raised = ops.expand_dims(x, axis=axis)
    same(raised, np.expand_dims(turned, axis))
    same(ops.squeeze(raised, axis if axis >= 0 else axis % (turned.ndim + 1)), turned)
    order = data.draw(st.permutations(range(turned.ndim)))
    same(ops.permute_dims(x, order), np.transpose(turned, order))
    shape = (2, *turned.shape)
    wide = ops.broadcast_to(x, shape)
    same(wide, np.broadcast_to(turned, shape))
    assert wide.readonly


def test_new_ones() -> None:
    same(ops.full([2, 3], 7), np.full((2, 3), 7))
    same(ops.full(2, 1.5), np.full(2, 1.5, "float32"))
    same(ops.full([0], True), np.full(0, True))
    same(ops.arange(5), np.arange(5))
    same(ops.arange(2, 11, 3, dtype="int16"), np.arange(2, 11, 3, "int16"))
    same(ops.arange(5, 0, -2), np.arange(5, 0, -2))
    same(ops.arange(3, 3), np.arange(3, 3))
    same(ops.arange(0.0, 1.0, 0.25), np.arange(0, 1, 0.25, "float32"))
    same(ops.linspace(0, 1, 5), np.linspace(0, 1, 5, dtype="float32"))
    same(ops.linspace(1, 2, 4, dtype="float64", endpoint=False), np.linspace(1, 2, 4, endpoint=False))
    same(ops.linspace(1, 2, 0), np.zeros(0, "float32"))
    same(ops.linspace(3, 9, 1), np.array([3], "float32"))


def test_views_share_and_are_complete() -> None:
    x = forklift.zeros([3, 4])
    ops.flip(x, axis=1)[:, 0] = 1.0
    assert x[:, 3].tolist() == [1.0] * 3
    large = ops.concat([forklift.zeros([300_000]) + i for i in range(3)])
    assert [large[0].item(), large[300_000].item(), large[-1].item()] == [0.0, 1.0, 2.0]


def test_bad_input() -> None:
    x = Tensor([[1.0, 2.0]])
    for call, error, text in [
        (lambda: ops.concat([]), ValueError, "no tensors"),
        (lambda: ops.concat([x, Tensor([1.0])]), ValueError, "shapes differ"),
        (lambda: ops.concat([x, x], axis=2), ValueError, "axis 2 is out of range"),
        (lambda: ops.stack([x, Tensor([1.0])]), ValueError, "shapes differ"),
        (lambda: ops.broadcast_to(x, [3]), ValueError, "does not broadcast"),
        (lambda: ops.squeeze(x, 1), ValueError, "not of length one"),
        (lambda: ops.flip(x, axis=5), ValueError, "out of range"),
        (lambda: ops.reshape(x, [3]), ValueError, "3"),
        (lambda: ops.arange(0, 3, 0), ValueError, "step of zero"),
        (lambda: ops.linspace(0, 1, -1), ValueError, "-1 numbers"),
        (lambda: ops.full([2], 300, dtype="int8"), ValueError, "does not fit"),
        (lambda: ops.full([-1], 1), ValueError, "-1"),
    ]:
        with pytest.raises(error, match=text):
            call()

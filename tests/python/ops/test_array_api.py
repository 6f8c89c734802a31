"""The namespace of the array API standard: names, dtypes, promotion, conversions, the array's own methods.

What elementwise functions make of zeros, infinities and NaN is in test_special_cases.py. The standard's own
tests are run by tests/conformance/run.py --suite array-api.
"""

from __future__ import annotations

import importlib
import itertools
import pickle
import sys
from pathlib import Path
from typing import Any

import forklift
import numpy as np
import pytest
from forklift import Tensor, context, ops

CONFORMANCE = Path(__file__).resolve().parents[2] / "conformance"
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
REALS = ("float32", "float64")
COMPLEX = ("complex64", "complex128")
STANDARD = ("bool", *INTEGERS, *REALS, *COMPLEX)

# Of the standard's version 2024.12, without the extensions.
_NAMES = """
    __array_api_version__ __array_namespace_info__ e inf nan newaxis pi
    arange asarray empty empty_like eye from_dlpack full full_like linspace meshgrid ones ones_like tril triu
    zeros zeros_like
    astype broadcast_arrays broadcast_to can_cast finfo iinfo isdtype result_type
    abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_invert bitwise_or
    bitwise_right_shift bitwise_xor ceil clip conj copysign cos cosh divide equal exp expm1 floor floor_divide
    greater greater_equal hypot imag isfinite isinf isnan less less_equal log log1p log2 log10 logaddexp
    logical_and logical_not logical_or logical_xor maximum minimum multiply negative nextafter not_equal
    positive pow real reciprocal remainder round sign signbit sin sinh square sqrt subtract tan tanh trunc
    take take_along_axis matmul matrix_transpose tensordot vecdot
    concat expand_dims flip moveaxis permute_dims repeat reshape roll squeeze stack tile unstack
    argmax argmin count_nonzero nonzero searchsorted where
    unique_all unique_counts unique_inverse unique_values argsort sort
    cumulative_prod cumulative_sum max mean min prod std sum var all any diff
"""
NAMES = tuple(_NAMES.split())
_METHODS = """
    abs add and array_namespace bool complex dlpack dlpack_device eq float floordiv ge getitem gt index int
    invert le lshift lt matmul mod mul ne neg or pos pow rshift setitem sub truediv xor
"""
METHODS = ("to_device", *(f"__{name}__" for name in _METHODS.split()))
ATTRIBUTES = ("dtype", "device", "mT", "ndim", "shape", "size", "T")
_REFLECTED = "add and floordiv lshift matmul mod mul or pow rshift sub truediv xor"
REFLECTED = tuple(_REFLECTED.split())


def unclaimed() -> set[str]:
    """The functions that the conformance run leaves out."""
    sys.path.insert(0, str(CONFORMANCE))
    try:
        runner = importlib.import_module("array_api")
    finally:
        sys.path.remove(str(CONFORMANCE))
    return {name for each in runner.read_unclaimed() for name in each.functions}


def test_each_name_is_there_or_said_not_to_be() -> None:
    left_out = unclaimed()
    assert left_out <= set(NAMES)
    assert {name for name in NAMES if not hasattr(ops, name)} == left_out
    assert set(NAMES) - left_out <= set(ops.__all__)


def test_the_array_has_its_methods() -> None:
    x = Tensor([1.0])
    assert [name for name in (*ATTRIBUTES, *METHODS) if not hasattr(Tensor, name)] == []
    assert [
        f"__{kind}{name}__" for kind in "ri" for name in REFLECTED if not hasattr(x, f"__{kind}{name}__")
    ] == []
    assert x.__array_namespace__() is ops
    assert x.__array_namespace__(api_version="2023.12") is ops
    with pytest.raises(ValueError, match=r"no version '1999.12'.*2024.12"):
        x.__array_namespace__(api_version="1999.12")


def test_dtypes_are_equal_to_their_names() -> None:
    every = [getattr(ops, name) for name in (*STANDARD, "float16", "bfloat16")]
    for dtype in every:
        assert [each for each in every if each == dtype] == [dtype]
        assert (dtype, str(dtype)) == (str(dtype), dtype)
        assert {dtype: 1}[str(dtype)] == 1
        assert dtype != "object"
        assert dtype != 3
        assert forklift.zeros((2,), dtype).dtype == dtype
        assert pickle.loads(pickle.dumps(dtype)) == dtype
    assert repr(ops.float32) == "forklift.ops.float32"
    assert isinstance(Tensor([1.0]).dtype, str)


@pytest.mark.parametrize("name", [*STANDARD, "float16"])
def test_numpy_takes_the_dtypes(name: str) -> None:
    dtype = getattr(ops, name)
    assert np.dtype(dtype) == np.dtype(name)
    assert np.dtype(name) == dtype
    assert dtype == np.dtype(name)
    assert np.zeros(2, dtype).dtype == name


def test_none_is_no_operand() -> None:
    x = Tensor([1.0])
    assert (x == None) is False  # noqa: E711
    assert (x != None) is True  # noqa: E711
    with pytest.raises(TypeError, match="unsupported operand"):
        _ = x + None  # type: ignore[operator]


def test_constants() -> None:
    assert (ops.e, ops.pi, ops.inf) == (np.e, np.pi, np.inf)
    assert ops.nan != ops.nan
    assert ops.newaxis is None
    assert ops.__array_api_version__ == "2024.12"


def test_limits() -> None:
    for name in ("float16", *REALS, *COMPLEX):
        ours, theirs = ops.finfo(getattr(ops, name)), np.finfo(name)
        assert (ours.bits, ours.eps, ours.max, ours.min, ours.smallest_normal) == (
            (theirs.bits, theirs.eps, theirs.max, theirs.min, theirs.smallest_normal)
        )
        assert ours.dtype == theirs.dtype
        assert ops.finfo(forklift.zeros((1,), name)) == ours
    # 8 bits of exponent and 7 of fraction.
    assert ops.finfo("bfloat16")[:2] == (16, 2.0**-7)
    assert ops.finfo("bfloat16").max == (2 - 2.0**-7) * 2.0**127
    for name in INTEGERS:
        limits = ops.iinfo(name)
        assert (limits.bits, limits.max, limits.min) == (
            (np.iinfo(name).bits, np.iinfo(name).max, np.iinfo(name).min)
        )
        assert limits.dtype == name
    with pytest.raises(TypeError, match="not of int8; iinfo"):
        ops.finfo(ops.int8)
    with pytest.raises(TypeError, match="not of bool; finfo"):
        ops.iinfo(ops.bool)


# data-apis.org/array-api, 2024.12, data types: "Data type categories".
KINDS = {
    "bool": ("bool",),
    "signed integer": INTEGERS[:4],
    "unsigned integer": INTEGERS[4:],
    "integral": INTEGERS,
    "real floating": REALS,
    "complex floating": COMPLEX,
    "numeric": (*INTEGERS, *REALS, *COMPLEX),
}


def test_isdtype() -> None:
    for (kind, names), name in itertools.product(KINDS.items(), STANDARD):
        dtype = getattr(ops, name)
        assert ops.isdtype(dtype, kind) is (name in names)
        assert ops.isdtype(dtype, (kind, dtype)) is True
        assert [other for other in STANDARD if ops.isdtype(dtype, getattr(ops, other))] == [name]
        assert ops.isdtype(dtype, ()) is False
    with pytest.raises(ValueError, match="'whole' is neither a dtype nor one of the kinds bool, signed"):
        ops.isdtype(ops.int8, "whole")


# The same, "Type promotion rules"; None where the standard has none.
def promoted(a: str, b: str) -> str | None:
    if a == b:
        return a
    kinds = {each for each, names in KINDS.items() if a in names or b in names}
    if "bool" in kinds:
        return None
    size = {name: int("".join(c for c in name if c.isdigit())) for name in (a, b)}
    wider = max((a, b), key=lambda name: size[name])
    for names in (INTEGERS[:4], INTEGERS[4:], REALS, COMPLEX):
        if a in names and b in names:
            return wider
    if a in INTEGERS and b in INTEGERS:
        unsigned, signed = (a, b) if a.startswith("u") else (b, a)
        if size[signed] > size[unsigned]:
            return signed
        return None if size[unsigned] == 64 else f"int{2 * size[unsigned]}"
    if a in (*REALS, *COMPLEX) and b in (*REALS, *COMPLEX):
        return "complex128" if "float64" in (a, b) or "complex128" in (a, b) else "complex64"
    return None


def test_promotion_is_the_standards() -> None:
    x = {name: forklift.zeros((1,), name) for name in STANDARD}
    found = 0
    for a, b in itertools.product(STANDARD, STANDARD):
        expected = promoted(a, b)
        if expected is None:
            continue
        found += 1
        assert ops.where(x["bool"], x[a], x[b]).dtype == expected, (a, b)
        assert ops.concat([x[a], x[b]]).dtype == expected, (a, b)
        if expected != "bool":
            assert (x[a] + x[b]).dtype == expected, (a, b)
    assert found == 1 + 64 - 8 + 16


@pytest.mark.parametrize(
    ("number", "dtypes"),
    [(True, STANDARD), (1, STANDARD[1:]), (1.5, (*REALS, *COMPLEX)), (1.5j, COMPLEX)],
)
def test_a_number_takes_the_dtype_beside_it(number: complex, dtypes: tuple[str, ...]) -> None:
    for name in dtypes:
        x = forklift.zeros((2,), name)
        assert ops.where(forklift.zeros((2,), "bool"), x, number).dtype == name
        if name != "bool":
            assert [(x * number).dtype, (number * x).dtype] == [name, name]


def test_numbers_alone_have_the_default_dtypes() -> None:
    assert [ops.asarray(each).dtype for each in (True, 1, 1.0, 1j)] == [
        "bool",
        "int64",
        "float32",
        "complex64",
    ]
    assert ops.arange(3).dtype == "int64"
    assert ops.arange(0, 1.5).dtype == ops.arange(0.5, 2).dtype == ops.arange(0, 2, 0.5).dtype == "float32"
    assert ops.add(1, 2.5).dtype == "float32"
    assert ops.add(1, 2j).dtype == "complex64"
    assert ops.add(1, 2**63).dtype == "float64"  # as of int64 and uint64


def test_asarray_shares_memory_where_it_can() -> None:
    array = np.arange(3.0)
    shared = ops.asarray(array)
    array[0] = 7
    assert shared.tolist() == [7, 1, 2]
    assert ops.asarray(shared) is shared
    assert ops.asarray(shared, copy=False, dtype=ops.float64, device="CPU") is shared
    apart = ops.asarray(shared, copy=True)
    array[0] = 8
    assert apart.tolist() == [7, 1, 2]
    assert ops.asarray(memoryview(array), copy=False).tolist() == [8, 1, 2]
    assert ops.asarray(array, dtype=ops.int8).tolist() == [8, 1, 2]
    assert ops.asarray([[1, 2], [3, 4]], dtype="float64").tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert ops.asarray(2.5).shape == ()


@pytest.mark.parametrize("what", [[1.0, 2.0], 3, np.arange(3, dtype="int16")])
def test_asarray_says_what_must_be_copied(what: Any) -> None:
    with pytest.raises(ValueError, match=r"copy=False, but .* must be copied"):
        ops.asarray(what, dtype=ops.float64, copy=False)


def test_from_dlpack() -> None:
    array = np.arange(4, dtype="float32")
    x = ops.from_dlpack(array)
    array[0] = 5
    assert x.tolist() == [5, 1, 2, 3]
    assert ops.from_dlpack(x, copy=False) is x
    assert not ops.from_dlpack(x, copy=True).same_view(x)
    assert ops.from_dlpack(x, device="CPU") is x


def test_devices_are_named() -> None:
    x = Tensor([1.0])
    for made in (
        ops.full((2,), 1, device="CPU"),
        ops.full_like(x, 2, device="CPU"),
        ops.arange(3, device="CPU"),
        ops.linspace(0, 1, 3, device="CPU"),
        ops.asarray([1], device="CPU"),
        ops.astype(x, ops.float64, device="CPU"),
        x.to_device("CPU"),
    ):
        assert made.device == "CPU"
    assert x.to_device(x.device) is x
    with pytest.raises(forklift.NotFoundError, match="Abacus"):
        ops.full((2,), 1, device="Abacus")
    with pytest.raises(ValueError, match="stream must be None"):
        x.to_device("CPU", stream=1)  # type: ignore[arg-type]


def test_full_like() -> None:
    x = forklift.zeros((2, 3), "int16")
    made = ops.full_like(x, 7)
    assert (made.dtype, made.tolist()) == ("int16", [[7] * 3] * 2)
    assert ops.full_like(x, 1.5, dtype=ops.float64).tolist() == [[1.5] * 3] * 2
    with pytest.raises(TypeError, match="fill_value must be a number"):
        ops.full_like(x, x)  # type: ignore[arg-type]


def test_reshape_copies_when_it_is_told_to() -> None:
    x = Tensor([[1, 2, 3], [4, 5, 6]])
    assert ops.reshape(x, (6,), copy=False)[0:1].same_view(ops.reshape(x, (6,))[0:1])
    copied = ops.reshape(x, (3, 2), copy=True)
    x[0, 0] = 9
    assert copied.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert ops.reshape(x.T, (6,)).tolist() == [9, 4, 2, 5, 3, 6]
    with pytest.raises(ValueError, match="copy=False, but the elements"):
        ops.reshape(x.T, (6,), copy=False)


def test_the_last_two_dimensions_exchanged() -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    np.testing.assert_array_equal(Tensor(x).mT.numpy(), x.transpose(0, 2, 1))
    np.testing.assert_array_equal(Tensor(x[0]).T.numpy(), x[0].T)
    with pytest.raises(ValueError, match=r"T needs a tensor of two dimensions, not .*; permute_dims"):
        _ = Tensor(x).T
    with pytest.raises(ValueError, match="mT needs a tensor of two or more dimensions"):
        _ = Tensor([1.0]).mT


def test_python_numbers_of_tensors() -> None:
    assert [1, 2, 3][Tensor(1)] == 2
    assert list(range(Tensor(3, "uint8"))) == [0, 1, 2]
    assert complex(Tensor(2 + 3j, "complex128")) == 2 + 3j
    assert complex(Tensor(2.5)) == 2.5
    for wrong in (Tensor([1]), Tensor(1.0), Tensor(True)):
        with pytest.raises(TypeError, match="only an integer tensor without dimensions is an index"):
            range(wrong)


def test_new_dimensions_by_index() -> None:
    x = np.arange(6).reshape(2, 3)
    ours = Tensor(x)
    keys: list[Any] = [
        None,
        (None, 1),
        (..., None),
        (slice(None), None, 1),
        (None, ..., None, 2, None),
        (0, None, slice(None, None, -1)),
    ]
    for key in keys:
        np.testing.assert_array_equal(ours[key].numpy(), x[key])
    ours[None, 0] = 7
    assert ours.tolist() == [[7, 7, 7], [3, 4, 5]]


def test_elements_are_set_to_arrays_that_fit() -> None:
    x = forklift.zeros((2, 3), "float32")
    x[...] = np.arange(3, dtype="int64")  # broadcast and converted
    assert x.tolist() == [[0, 1, 2]] * 2
    x[:, 0] = Tensor(5)
    x[1, 1:] = Tensor([8.0, 9.0])
    x[0] = x[0, ::-1]  # overlaps
    assert x.tolist() == [[2, 1, 5], [5, 8, 9]]
    whole = forklift.zeros((2,), "int32")
    with pytest.raises(ValueError, match=r"int32\(2,\) cannot hold elements of float32\(2,\)"):
        whole[...] = Tensor([1.5, 2.5])
    with pytest.raises(ValueError, match="does not broadcast"):
        whole[...] = Tensor([1, 2, 3])
    with pytest.raises(ValueError, match="read-only"):
        whole.as_readonly()[...] = Tensor([1, 2])


def test_a_product_of_matrices_in_place() -> None:
    x = Tensor([[1.0, 2.0], [3.0, 4.0]])
    same = x
    x @= Tensor([[0.0, 1.0], [1.0, 0.0]])
    assert x is same
    assert x.tolist() == [[2, 1], [4, 3]]
    with pytest.raises(ValueError, match="has not the result's shape"):
        x @= Tensor([1.0, 1.0])


def test_several_results_are_lists() -> None:
    """As the standard's version 2024.12 has them; 2025.12 has tuples."""
    line = Tensor([1.0, 2.0])
    assert [type(ops.meshgrid(line, line)), type(ops.broadcast_arrays(line, line))] == [list, list]


def test_expand_dims_raises_an_index_error() -> None:
    for axis in (-4, 3):
        with pytest.raises(IndexError, match=f"axis {axis} is out of range"):
            ops.expand_dims(forklift.zeros((2, 3)), axis=axis)


def test_inspection() -> None:
    info = ops.__array_namespace_info__()
    assert info.devices() == context.devices()
    assert info.default_device() in info.devices()
    assert info.default_dtypes(device="CPU") == {
        "real floating": "float32",
        "complex floating": "complex64",
        "integral": "int64",
        "indexing": "int64",
    }
    assert ops.argmax(Tensor([1.0])).dtype == info.default_dtypes()["indexing"]
    assert list(info.dtypes()) == list(info.dtypes(kind=("bool", "numeric"))) == list(STANDARD)
    for kind, names in KINDS.items():
        assert list(info.dtypes(kind=kind, device="CPU")) == list(names)
    with pytest.raises(ValueError, match="no device 'Abacus' here; there are: CPU"):
        info.dtypes(device="Abacus")


def test_capabilities_are_what_there_is() -> None:
    claimed = ops.__array_namespace_info__().capabilities()
    assert claimed["boolean indexing"] is True
    assert Tensor([1, 2, 3])[Tensor([True, False, True])].tolist() == [1, 3]
    assert claimed["data-dependent shapes"] is hasattr(ops, "unique_values")
    most = claimed["max dimensions"]
    assert forklift.zeros((1,) * most).ndim == most
    with pytest.raises(ValueError, match=f"{most + 1}|dimensions"):
        forklift.zeros((1,) * (most + 1))

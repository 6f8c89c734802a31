"""Zeros, infinities and NaN: the results that the array API standard demands of elementwise functions.

The tables are the paragraphs "Special cases" of the standard, version 2024.12, "Element-wise functions"
(data-apis.org/array-api/2024.12/API_specification/elementwise_functions.html), each under its function's
name, with numbers in the place of words: 3 is a positive finite number, and each sentence with "either ...
or" is two cases. Where the standard wants "an approximation" a result may differ in its last bits; elsewhere,
and in the sign of a zero, in nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from forklift import Tensor, ops

# x: result.
UNARY = {
    "abs": "nan:nan -0:0 -inf:inf",
    "acos": "nan:nan 1.5:nan -1.5:nan inf:nan 1:0",
    "acosh": "nan:nan 0.5:nan -inf:nan 1:0 inf:inf",
    "asin": "nan:nan 1.5:nan -1.5:nan 0:0 -0:-0",
    "asinh": "nan:nan 0:0 -0:-0 inf:inf -inf:-inf",
    "atan": "nan:nan 0:0 -0:-0 inf:pi/2 -inf:-pi/2",
    "atanh": "nan:nan -1.5:nan 1.5:nan -1:-inf 1:inf 0:0 -0:-0",
    "ceil": "3:3 inf:inf -inf:-inf 0:0 -0:-0 nan:nan 1.5:2 -0.5:-0",
    "cos": "nan:nan 0:1 -0:1 inf:nan -inf:nan",
    "cosh": "nan:nan 0:1 -0:1 inf:inf -inf:inf",
    "exp": "nan:nan 0:1 -0:1 inf:inf -inf:0",
    "expm1": "nan:nan 0:0 -0:-0 inf:inf -inf:-1",
    "floor": "3:3 inf:inf -inf:-inf 0:0 -0:-0 nan:nan 1.5:1",
    "isfinite": "inf:0 -inf:0 nan:0 3:1 -0:1",
    "isinf": "inf:1 -inf:1 nan:0 3:0",
    "isnan": "nan:1 inf:0 3:0",
    "log": "nan:nan -1:nan -inf:nan 0:-inf -0:-inf 1:0 inf:inf",
    "log1p": "nan:nan -1.5:nan -inf:nan -1:-inf -0:-0 0:0 inf:inf",
    "log2": "nan:nan -1:nan -inf:nan 0:-inf -0:-inf 1:0 inf:inf",
    "log10": "nan:nan -1:nan -inf:nan 0:-inf -0:-inf 1:0 inf:inf",
    "round": "3:3 inf:inf -inf:-inf 0:0 -0:-0 nan:nan 0.5:0 1.5:2 2.5:2 -0.5:-0",
    "sign": "-3:-1 -inf:-1 0:0 -0:0 3:1 inf:1 nan:nan",
    "signbit": "0:0 -0:1 inf:0 -inf:1 3:0 -3:1 nan:0 -nan:1",
    "sin": "nan:nan 0:0 -0:-0 inf:nan -inf:nan",
    "sinh": "nan:nan 0:0 -0:-0 inf:inf -inf:-inf",
    "sqrt": "nan:nan -1:nan -inf:nan 0:0 -0:-0 inf:inf",
    "tan": "nan:nan 0:0 -0:-0 inf:nan -inf:nan",
    "tanh": "nan:nan 0:0 -0:-0 inf:1 -inf:-1",
    "trunc": "3:3 inf:inf -inf:-inf 0:0 -0:-0 nan:nan 1.5:1 -0.5:-0",
}

_QUOTIENTS = """
    nan,3:nan 3,nan:nan inf,inf:nan inf,-inf:nan -inf,inf:nan -inf,-inf:nan
    0,0:nan 0,-0:nan -0,0:nan -0,-0:nan 0,3:0 -0,3:-0 0,-3:-0 -0,-3:0
    3,0:inf 3,-0:-inf -3,0:-inf -3,-0:inf 3,inf:0 -3,-inf:0
"""

# x1,x2: result.
BINARY = {
    "add": """
        nan,3:nan 3,nan:nan inf,-inf:nan -inf,inf:nan inf,inf:inf -inf,-inf:-inf inf,3:inf -inf,3:-inf
        3,inf:inf
        3,-inf:-inf -0,-0:-0 -0,0:0 0,-0:0 0,0:0 0,3:3 -0,3:3 3,0:3 3,-0:3 3,-3:0""",
    "atan2": """
        nan,3:nan 3,nan:nan 3,0:pi/2 3,-0:pi/2 0,3:0 0,0:0 0,-0:pi 0,-3:pi -0,3:-0 -0,0:-0 -0,-0:-pi -0,-3:-pi
        -3,0:-pi/2 -3,-0:-pi/2 3,inf:0 3,-inf:pi -3,inf:-0 -3,-inf:-pi inf,3:pi/2 -inf,3:-pi/2 inf,inf:pi/4
        inf,-inf:3*pi/4 -inf,inf:-pi/4 -inf,-inf:-3*pi/4""",
    "copysign": """
        3,-3:-3 -3,-0:-3 -3,0:3 -3,3:3 3,-nan:-3 -3,nan:3 nan,-3:-nan -nan,-0:-nan -nan,0:nan -nan,3:nan
        nan,-nan:-nan -nan,nan:nan""",
    "divide": _QUOTIENTS + "inf,3:inf inf,-3:-inf -inf,3:-inf -inf,-3:inf 3,-inf:-0 -3,inf:-0",
    "equal": "nan,3:0 3,nan:0 nan,nan:0 inf,inf:1 -inf,-inf:1 -0,0:1 -0,-0:1 0,-0:1 0,0:1 3,3:1 inf,-inf:0",
    # With infinities the standard allows Python's results, which are these (NumPy's and torch's, too).
    "floor_divide": _QUOTIENTS
    + "inf,3:nan inf,-3:nan -inf,3:nan -inf,-3:nan 3,-inf:-1 -3,inf:-1 7,2:3 -7,2:-4",
    "hypot": """
        inf,3:inf -inf,3:inf inf,nan:inf -inf,nan:inf 3,inf:inf nan,-inf:inf 0,-3:3 -0,3:3 -3,0:3 3,-0:3
        3,nan:nan
        nan,nan:nan nan,3:nan""",
    "logaddexp": """
        nan,3:nan 3,nan:nan inf,nan:nan inf,3:inf inf,-inf:inf inf,inf:inf 3,inf:inf -inf,-inf:-inf""",
    "maximum": "nan,3:nan 3,nan:nan inf,nan:nan 3,inf:inf -inf,3:3",
    "minimum": "nan,3:nan 3,nan:nan nan,-inf:nan 3,inf:3 -inf,3:-inf",
    "multiply": """
        nan,3:nan 3,nan:nan inf,0:nan inf,-0:nan -inf,0:nan 0,inf:nan -0,-inf:nan 3,0:0 -3,-0:0 -3,0:-0
        3,-0:-0
        inf,inf:inf inf,-inf:-inf -inf,-inf:inf inf,3:inf inf,-3:-inf 3,-inf:-inf -3,-inf:inf""",
    "nextafter": "nan,3:nan 3,nan:nan -0,0:0 0,-0:-0",
    "not_equal": "nan,3:1 3,nan:1 nan,nan:1 inf,-inf:1 -inf,inf:1 3,-3:1 3,3:0 0,-0:0",
    "pow": """
        3,nan:nan nan,3:nan nan,0:1 nan,-0:1 3,0:1 inf,-0:1 3,inf:inf -3,inf:inf 3,-inf:0 -3,-inf:0 1,inf:1
        -1,inf:1
        1,-inf:1 -1,-inf:1 1,3:1 0.5,inf:0 -0.5,inf:0 0.5,-inf:inf -0.5,-inf:inf inf,3:inf inf,-3:0
        -inf,3:-inf
        -inf,2:inf -inf,0.5:inf -inf,-3:-0 -inf,-2:0 0,3:0 0,-3:inf -0,3:-0 -0,2:0 -0,0.5:0 -0,-3:-inf
        -0,-2:inf
        -3,0.5:nan""",
    "remainder": """
        nan,3:nan 3,nan:nan inf,inf:nan inf,-inf:nan -inf,inf:nan 0,0:nan 0,-0:nan -0,0:nan 0,3:0 -0,3:0
        0,-3:-0
        -0,-3:-0 3,0:nan 3,-0:nan -3,0:nan -3,-0:nan inf,3:nan inf,-3:nan -inf,3:nan -inf,-3:nan 3,inf:3
        3,-inf:-inf
        -3,inf:inf -3,-inf:-3""",
}

# x and the result, of complex numbers.
COMPLEX = {
    "expm1": [
        (complex(0.0, 0.0), complex(0.0, 0.0)),
        (complex(-0.0, 0.0), complex(0.0, 0.0)),
        (complex(3, np.inf), complex(np.nan, np.nan)),
        (complex(3, np.nan), complex(np.nan, np.nan)),
        (complex(np.inf, 0.0), complex(np.inf, 0.0)),
        (complex(-np.inf, 3), complex(-1, 0.0)),
        (complex(np.inf, 3), complex(-np.inf, np.inf)),
        (complex(np.nan, 0.0), complex(np.nan, 0.0)),
        (complex(np.nan, 3), complex(np.nan, np.nan)),
        (complex(np.nan, np.nan), complex(np.nan, np.nan)),
    ],
    "log1p": [
        (complex(-1, 0.0), complex(-np.inf, 0.0)),
        (complex(3, np.inf), complex(np.inf, np.pi / 2)),
        (complex(3, np.nan), complex(np.nan, np.nan)),
        (complex(-np.inf, 3), complex(np.inf, np.pi)),
        (complex(np.inf, 3), complex(np.inf, 0.0)),
        (complex(-np.inf, np.inf), complex(np.inf, 3 * np.pi / 4)),
        (complex(np.inf, np.inf), complex(np.inf, np.pi / 4)),
        (complex(np.inf, np.nan), complex(np.inf, np.nan)),
        (complex(-np.inf, np.nan), complex(np.inf, np.nan)),
        (complex(np.nan, 3), complex(np.nan, np.nan)),
        (complex(np.nan, np.inf), complex(np.inf, np.nan)),
        (complex(np.nan, np.nan), complex(np.nan, np.nan)),
    ],
    "tanh": [
        (complex(0.0, 0.0), complex(0.0, 0.0)),
        (complex(3, np.inf), complex(np.nan, np.nan)),
        (complex(3, np.nan), complex(np.nan, np.nan)),
        (complex(np.inf, 3), complex(1, 0.0)),
        (complex(np.inf, 2), complex(1, 0.0)),
        (complex(-np.inf, 3), complex(-1, 0.0)),
        (complex(np.nan, 0.0), complex(np.nan, 0.0)),
        (complex(np.nan, 3), complex(np.nan, np.nan)),
        (complex(np.nan, np.nan), complex(np.nan, np.nan)),
    ],
}
# Enough for a vector and a rest, and one alone.
COUNTS = (1, 35)


def number(text: str) -> float:
    """The number that a table writes so; NaN with that sign."""
    value = float(eval(text.lstrip("-"), {"pi": np.pi, "inf": np.inf, "nan": np.nan}))
    return -value if text.startswith("-") else value


def same(got: Any, expected: float, dtype: Any, what: str, *, sign_of_nan: bool = False) -> None:
    """All of the elements: the number, the sign of a zero, of another number all but its last two bits."""
    values = np.asarray(got)
    if np.isnan(expected):
        assert np.isnan(values).all(), (what, values)
        if sign_of_nan:
            assert (np.signbit(values) == np.signbit(expected)).all(), (what, values)
        return
    if expected == 0 and values.dtype != bool:
        assert (values == 0).all(), (what, values)
        assert (np.signbit(values) == np.signbit(expected)).all(), (what, values)
        return
    exact = expected == np.round(expected) or np.isinf(expected)
    tolerance = 0 if exact else 4 * np.finfo(dtype).eps
    np.testing.assert_allclose(values.astype("float64"), expected, rtol=tolerance, err_msg=what)


def cases(table: dict[str, str]) -> list[tuple[str, tuple[str, ...], str]]:
    return [
        (name, tuple(left.split(",")), right)
        for name, text in table.items()
        for left, right in (each.split(":") for each in text.split())
    ]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("table", [UNARY, BINARY], ids=["unary", "binary"])
def test_of_real_numbers(table: dict[str, str], dtype: str) -> None:
    for name, operands, result in cases(table):
        function = getattr(ops, name)
        expected = number(result)
        for count in COUNTS:
            arrays = [np.full(2 * count, number(each), dtype) for each in operands]
            side_by_side = [Tensor(each[:count]) for each in arrays]
            apart = [Tensor(each)[::2] for each in arrays]
            what = f"{name}({', '.join(operands)}) of {count} {dtype}"
            for tensors in (side_by_side, apart):
                same(function(*tensors), expected, dtype, what, sign_of_nan=name == "copysign")


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", COMPLEX)
def test_of_complex_numbers(name: str, dtype: str) -> None:
    real = "float32" if dtype == "complex64" else "float64"
    for x, expected in COMPLEX[name]:
        got = np.asarray(getattr(ops, name)(Tensor(np.array([x], dtype))))
        same(got.real, expected.real, real, f"{name}({x}), real part")
        same(got.imag, expected.imag, real, f"{name}({x}), imaginary part")
        # f(conj(x)) = conj(f(x))
        turned = np.asarray(getattr(ops, name)(Tensor(np.array([x.conjugate()], dtype))))
        np.testing.assert_array_equal(turned, got.conj())


# Where "the sign of the real (or imaginary) component is unspecified".
@pytest.mark.parametrize(
    ("name", "x", "real", "imaginary"),
    [
        ("expm1", complex(-np.inf, np.inf), -1.0, 0.0),
        ("expm1", complex(np.inf, np.inf), np.inf, np.nan),
        ("expm1", complex(-np.inf, np.nan), -1.0, 0.0),
        ("expm1", complex(np.inf, np.nan), np.inf, np.nan),
        ("tanh", complex(np.inf, np.inf), 1.0, 0.0),
        ("tanh", complex(np.inf, np.nan), 1.0, 0.0),
    ],
)
def test_of_complex_numbers_but_for_a_sign(name: str, x: complex, real: float, imaginary: float) -> None:
    got = complex(getattr(ops, name)(Tensor(x, "complex128")))
    np.testing.assert_array_equal(abs(got.real), abs(real))
    np.testing.assert_array_equal(abs(got.imag), imaginary)


def test_limits_that_are_nan_clip_to_nan() -> None:
    x = Tensor([1.0, np.nan, 3.0])
    nan = Tensor([np.nan, 0.0, 2.0])
    np.testing.assert_array_equal(ops.clip(x, nan, 9.0).numpy(), [np.nan, np.nan, 3])
    np.testing.assert_array_equal(ops.clip(x, 0.0, nan).numpy(), [np.nan, np.nan, 2])
    np.testing.assert_array_equal(ops.clip(x).numpy(), x.numpy())


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_functions_near_zero_keep_their_digits(dtype: str) -> None:
    """Where 1 + x and exp(x) - 1 would round x away: by their series, which have two terms here."""
    x = np.array([1e-9 + 2e-9j, -3e-10 + 1e-12j, 1e-11 - 1e-9j], dtype)
    eps = np.finfo(dtype).eps
    wide = x.astype("complex128")
    for function, expected in ((ops.expm1, wide + wide**2 / 2), (ops.log1p, wide - wide**2 / 2)):
        got = np.asarray(function(Tensor(x)))
        np.testing.assert_allclose(got.real, expected.real, rtol=8 * eps)
        np.testing.assert_allclose(got.imag, expected.imag, rtol=8 * eps)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_functions_beside_numpys(dtype: str) -> None:
    random = np.random.default_rng(5)
    x = (random.normal(size=400) * 20 + random.normal(size=400) * 5j).astype(dtype)
    eps = 64 * np.finfo(dtype).eps
    np.testing.assert_allclose(np.asarray(ops.expm1(Tensor(x))), np.expm1(x.astype("complex128")), rtol=eps)
    np.testing.assert_allclose(np.asarray(ops.log1p(Tensor(x))), np.log1p(x.astype("complex128")), rtol=eps)
    np.testing.assert_allclose(np.asarray(ops.expm1(Tensor([800.0 + 0j], dtype)))[0].real, np.inf)

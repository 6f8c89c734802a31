"""Objects arrive as the standard library's pickles would bring them."""

from __future__ import annotations

import collections
import copyreg
import datetime
import decimal
import fractions
import multiprocessing.reduction
import pickle
import uuid
from typing import Any

import numpy as np
import pytest
import targets
from forklift.multiprocessing import Queue
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


def same(a: Any, b: Any) -> bool:
    """Equal in type, value and, for arrays, dtype, order and writability."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return (
            a.dtype == b.dtype
            and a.shape == b.shape
            and a.flags.f_contiguous == b.flags.f_contiguous
            and a.flags.writeable == b.flags.writeable
            and a.tobytes() == b.tobytes()
        )
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return len(a) == len(b) and all(
            same(x, y)
            for left, right in zip(a.items(), b.items(), strict=True)
            for x, y in zip(left, right, strict=True)
        )
    if isinstance(a, float):
        return repr(a) == repr(b)
    return bool(a == b)


VALUES = [
    None,
    True,
    False,
    0,
    -1,
    127,
    128,
    -32,
    -33,
    2**31 - 1,
    -(2**31),
    2**63 - 1,
    -(2**63),
    2**63,
    -(2**70),
    10**400,
    0.0,
    -0.0,
    1.5,
    float("inf"),
    float("-inf"),
    float("nan"),
    5e-324,
    1 + 2j,
    "",
    "a",
    "x" * 31,
    "x" * 32,
    "é" * 300,
    "\N{GRINNING FACE}" * 20_000,
    "\ud800 lone",
    b"",
    b"\0" * 255,
    b"y" * 70_000,
    b"z" * 3_000_000,
    bytearray(b"abc"),
    bytearray(100_000),
    (),
    [],
    {},
    (1,),
    [[]],
    ((),),
    {"a": 1, 2: "b", None: 3.5, True: b"x", (1, 2): []},
    [1, (2, [3, (4, {"five": 6})])],
    list(range(999)),
    list(range(1000)),
    list(range(-300, 100_000)),
    tuple(range(70_000)),
    [float(i) if i % 3 else i for i in range(5000)],
    [*range(2000), 2**63 - 1, -(2**63), *range(20)],
    [*range(2000), 2**63, *range(20)],
    [*range(600), None, *range(600), True, False, *([0.5] * 600), "x", *range(15)],
    [list(range(3000)), {"a": list(range(500))}, tuple([-33.0] * 2000)],
    [*range(2000), *map(str, range(1200))],
    list(range(5000)),
    tuple(range(20)),
    {i: str(i) for i in range(600)},
    {1, 2, 3},
    frozenset("ab"),
    collections.OrderedDict(a=1, b=2),
    collections.Counter("hello"),
    decimal.Decimal("1.10"),
    fractions.Fraction(1, 3),
    datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc),
    uuid.UUID(int=7),
    range(3),
    slice(1, 2, 3),
    Ellipsis,
    int,
    len,
    np.float32(1.5),
    np.int64(3),
    np.dtype("f4"),
    [np.arange(3), {"k": (np.zeros((2, 2)), np.float64(1))}],
]


@pytest.mark.parametrize(
    "value",
    VALUES,
    ids=[repr(v)[:30].encode("ascii", "replace").decode() + f"-{i}" for i, v in enumerate(VALUES)],
)
def test_a_value_arrives_as_pickle_would_bring_it(value: Any) -> None:
    queue = Queue()
    queue.put(value)
    assert same(queue.get(timeout=5), pickle.loads(pickle.dumps(value)))


def test_all_values_reach_a_child_and_come_back(echo: Any) -> None:
    for value in VALUES:
        assert same(echo(value), pickle.loads(pickle.dumps(value)))


def nest(depth: int) -> Any:
    value: Any = 1
    for i in range(depth):
        value = [value] if i % 2 else (value,)
    return value


@pytest.mark.parametrize("depth", [1, 7, 8, 9, 50])
def test_depth(depth: int) -> None:
    queue = Queue()
    queue.put(nest(depth))
    assert queue.get(timeout=5) == nest(depth)


def test_identity_within_a_message_is_kept() -> None:
    queue = Queue()
    inner = [1]
    array = np.arange(3)
    text = "t" * 1000
    cyclic: list[Any] = []
    cyclic.append(cyclic)
    queue.put([inner, inner, array, array, text, text, cyclic])
    a, b, x, y, s, t, c = queue.get(timeout=5)
    assert a is b
    assert x is y
    assert s is t
    assert c[0] is c


arrays = st.builds(
    lambda shape, dtype, order: np.arange(int(np.prod(shape))).astype(dtype).reshape(shape, order=order),
    st.lists(st.integers(0, 4), max_size=3).map(tuple),
    st.sampled_from(["?", "i1", "u2", "i4", "u8", "f2", "f4", "f8", "c8", "c16", ">i4", "M8[s]", "S3", "U2"]),
    st.sampled_from(["C", "F"]),
)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=True)
    | st.text()
    | st.binary()
    | st.complex_numbers()
    | st.dates()
)
keys = st.none() | st.booleans() | st.integers() | st.text() | st.binary()
objects = st.recursive(
    scalars | arrays,
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(keys, inner) | st.sets(keys),
    max_leaves=30,
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=objects)
def test_any_nesting_arrives_as_pickle_would_bring_it(value: Any) -> None:
    queue = Queue()
    queue.put(value)
    got = queue.get(timeout=5)
    wanted = pickle.loads(pickle.dumps(value))
    agree = same(got, wanted) or repr(got) == repr(wanted)
    del queue
    assert agree, (got, wanted)


def test_reducers_registered_later_are_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = Queue()
    queue.put(targets.Point(1))
    assert queue.get(timeout=5).x == 1
    reducers = multiprocessing.reduction.ForkingPickler._extra_reducers
    monkeypatch.setitem(reducers, targets.Point, lambda p: (targets.make_point, (p.x,)))
    queue.put([targets.Point(1)])
    assert queue.get(timeout=5)[0].x == 101
    monkeypatch.delitem(reducers, targets.Point)
    queue.put(targets.Point(1))
    assert queue.get(timeout=5).x == 1
    monkeypatch.setitem(copyreg.dispatch_table, targets.Point, lambda p: (targets.make_point, (p.x + 1000,)))
    queue.put(targets.Point(1))
    assert queue.get(timeout=5).x == 1101


def test_a_put_inside_a_reducer_comes_first() -> None:
    queue = targets.PutsWhilePickled.queue = Queue()
    queue.put(["outer", targets.PutsWhilePickled()])
    assert queue.get(timeout=5) == "inner"
    assert queue.get(timeout=5) == ["outer", 7]
    targets.PutsWhilePickled.queue = None


def test_objects_that_use_out_of_band_buffers() -> None:
    queue = Queue()
    value = {
        "array": np.arange(100_000),
        "set": {1},
        "small": np.arange(5, dtype=">i2"),
        "bytes": b"q" * 100_000,
    }
    queue.put(value)
    got = queue.get(timeout=5)
    assert (got["array"] == value["array"]).all()
    assert got["array"].flags.writeable
    assert got["small"].flags.writeable
    got["small"][0] = 9
    assert got["bytes"] == value["bytes"]

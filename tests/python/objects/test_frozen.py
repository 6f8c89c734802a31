"""freeze: arrays and containers in one block, read in place by every process."""

from __future__ import annotations

import copy
import gc
import pickle
from collections.abc import Mapping, Sequence
from typing import Any

import forklift
import forklift.multiprocessing
import numpy as np
import pytest
from forklift import _core
from forklift.objects.frozen import FrozenDict, FrozenList, FrozenTuple

NESTED: dict[Any, Any] = {
    "none": None,
    "flags": [True, False],
    "numbers": (0, -1, 2**63 - 1, -(2**63), 2**63, -(2**200), 1.5, float("inf"), 1 + 2j),
    "text": ["", "a", "12345678", "123456789", "äöü€😀" * 50, "\udcff lone"],
    "bytes": [b"", b"\x00" * 8, bytes(range(256)) * 40],
    "empty": ([], (), {}),
    ("a", 1, None): {
        1: "one",
        2.5: "real",
        b"k": "bytes",
        None: "none",
        2**70: "big",
        "ключ": ["deep", ("er",)],
    },
    "many": {f"key {i}": i for i in range(1000)},
}


def blocks() -> int:
    gc.collect()
    return forklift.stats()["blocks"]


def nested(depth: int) -> Any:
    value: Any = "bottom"
    for _ in range(depth):
        value = [value]
    return value


# --- containers


def test_a_frozen_container_equals_what_it_was_made_of() -> None:
    frozen = forklift.freeze(NESTED)
    assert isinstance(frozen, FrozenDict)
    assert frozen == NESTED
    assert NESTED == frozen  # noqa: SIM300
    assert frozen.to_python() == NESTED
    assert forklift.thaw(frozen) == NESTED
    assert type(frozen.to_python()["empty"][2]) is dict
    assert list(frozen) == list(NESTED)
    assert list(reversed(frozen)) == list(reversed(NESTED))
    assert list(frozen.keys()) == list(NESTED)
    assert list(frozen.values()) == list(NESTED.values())
    assert dict(frozen.items()) == NESTED
    assert forklift.audit() == []


def test_all_lies_in_one_block() -> None:
    before = blocks()
    frozen = forklift.freeze([NESTED, [np.arange(10_000), np.zeros((3, 4))]])
    assert blocks() == before + 1
    part = frozen[0]["text"]
    array = frozen[1][0]
    del frozen
    assert blocks() == before + 1
    assert part[3] == "123456789"
    del part
    assert array[-1] == 9_999
    assert blocks() == before + 1
    del array
    assert blocks() == before


def test_sequences() -> None:
    items = [3, "x", None, 2.5, "x"]
    for kind, ours in ((list, FrozenList), (tuple, FrozenTuple)):
        plain: Any = kind(items)
        frozen = forklift.freeze(plain)
        assert type(frozen) is ours
        assert isinstance(frozen, Sequence)
        assert len(frozen) == 5
        assert [frozen[i] for i in range(-5, 5)] == [plain[i] for i in range(-5, 5)]
        for part in (slice(1, 3), slice(None, None, -2), slice(9, 10), slice(-3, None)):
            assert frozen[part] == plain[part]
            assert type(frozen[part]) is kind
        assert list(reversed(frozen)) == items[::-1]
        assert "x" in frozen
        assert "y" not in frozen
        assert frozen.index("x") == 1
        assert frozen.index("x", 2) == 4
        assert frozen.count("x") == 2
        assert frozen + plain == plain + plain
        assert plain + frozen == plain + plain
        assert frozen != kind(items[:-1])
        assert frozen != kind([*items[:-1], "y"])
        for i in (5, -6, 2**40):
            with pytest.raises(IndexError):
                frozen[i]
        with pytest.raises(ValueError, match="is not in it"):
            frozen.index("y")
        with pytest.raises(TypeError):
            frozen["a"]
        with pytest.raises(TypeError):
            frozen[0] = 1
        with pytest.raises(AttributeError):
            frozen.append(1)
    assert forklift.freeze([1]) != forklift.freeze((1,))
    assert forklift.freeze([1]) != (1,)


def test_hashes_are_those_of_tuples() -> None:
    frozen = forklift.freeze((1, "a", (2, b"b")))
    assert hash(frozen) == hash((1, "a", (2, b"b")))
    assert {frozen: 1}[(1, "a", (2, b"b"))] == 1
    for unhashable in ([1], {1: 2}):
        with pytest.raises(TypeError, match="unhashable"):
            hash(forklift.freeze(unhashable))
    with pytest.raises(TypeError, match="unhashable"):
        hash(forklift.freeze(([1],)))


def test_keys_are_found_as_in_a_dictionary() -> None:
    plain: dict[Any, Any] = {i: i for i in range(-50, 50)}
    plain.update({f"s{i}": i for i in range(300)})
    plain.update({(i, "t"): i for i in range(20)})
    plain.update({2**64 + i: i for i in range(20)})
    plain.update({0.5: "half", 1e300: "huge", b"s1": "bytes", None: "none", "": "empty"})
    frozen = forklift.freeze(plain)
    assert isinstance(frozen, Mapping)
    for key, value in plain.items():
        assert frozen[key] == value
        assert key in frozen
    equal = [
        (1.0, 1),
        (True, 1),
        (np.int64(7), 7),
        (np.float64(0.5), "half"),
        (int(1e300), "huge"),
        (-0.0, 0),
    ]
    for key, value in equal:
        assert plain[key] == value
        assert frozen[key] == value
    for missing in ("x", 1.5, 2**90, (1, "u"), b"", float("nan"), (), object(), 3 + 1j, "s1 "):
        assert missing not in frozen
        assert frozen.get(missing, 5) == 5
        with pytest.raises(KeyError):
            frozen[missing]
    with pytest.raises(TypeError, match="unhashable"):
        frozen[[1]]
    assert frozen | {"x": 1} == plain | {"x": 1}
    assert {"x": 1} | frozen == {"x": 1} | plain
    assert frozen != {**plain, "x": 1}
    assert forklift.freeze({"a": 1}) != {"a": 2}
    assert forklift.freeze({"a": 1}) != {"b": 1}


def test_repr_is_short() -> None:
    assert (
        repr(forklift.freeze(["a", (1,), {"k": []}]))
        == "FrozenList(['a', FrozenTuple((1,)), FrozenDict({'k': FrozenList([])})])"
    )
    text = repr(forklift.freeze(list(range(100_000))))
    assert text.endswith("19, ... 100000 items])")


def test_numpy_inside() -> None:
    plain = {
        "c": np.arange(12.0).reshape(3, 4),
        "f": np.asfortranarray(np.arange(12).reshape(3, 4)),
        "gaps": np.arange(100)[::-3],
        "scalar": np.float32(1.5),
        "empty": np.empty((3, 0, 2)),
        "0d": np.array(7),
        "record": np.array([(1, 2.5), (3, 4.5)], dtype=[("a", "i4"), ("b", "f8")])[::-1],
        "text": np.array(["a", "longer"]),
        "dates": np.array(["2020-01-01"], dtype="datetime64[D]"),
        "big endian": np.arange(5, dtype=">i4"),
    }
    frozen = forklift.freeze(plain)
    for key, value in plain.items():
        got = frozen[key]
        assert type(got) is type(value)
        assert got.dtype == value.dtype
        np.testing.assert_array_equal(got, value)
        if isinstance(got, np.ndarray):
            assert not got.flags.writeable
            assert got.flags.aligned
            with pytest.raises(ValueError, match=r"WRITEABLE|writeable"):
                got.flags.writeable = True
            if got.size:
                with pytest.raises(ValueError, match="read-only"):
                    got[...] = got
    assert frozen["f"].flags.f_contiguous
    thawed = frozen.to_python()
    thawed["c"][0, 0] = 100
    assert frozen["c"][0, 0] == 0


def test_one_object_twice_is_stored_once() -> None:
    array = np.zeros(1_000_000)
    frozen = forklift.freeze([array, array, [array] * 3])
    assert _core.block_under(frozen[0]) is not None
    assert len(memoryview(frozen._block)) < 2 * array.nbytes
    assert frozen[2][1].__array_interface__["data"] == frozen[0].__array_interface__["data"]


def test_deep_nesting() -> None:
    frozen = forklift.freeze(nested(100))
    for _ in range(100):
        frozen = frozen[0]
    assert frozen == "bottom"
    with pytest.raises(RecursionError):
        forklift.freeze(nested(100_000))


def test_what_contains_itself_is_refused() -> None:
    loop: list[Any] = [1]
    loop.append({"again": (loop,)})
    before = blocks()
    with pytest.raises(ValueError, match=r"obj\[1\]\['again'\]\[0\]: it contains itself"):
        forklift.freeze(loop)
    with pytest.raises(ValueError, match=r"obj\[1\]\['again'\]\[0\]: it contains itself"):
        forklift.share(loop)
    assert blocks() == before


class Subclass(np.ndarray):  # type: ignore[type-arg]
    pass


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": [1, 2, 3, {1}]}, r"obj\['a'\]\[3\]: <class 'set'> cannot be frozen"),
        ([bytearray(1)], r"obj\[0\]: <class 'bytearray'> cannot be frozen"),
        ({"x": {("a", object()): 1}}, r"obj\['x'\]\[\('a', .*\)\]: a key of type tuple"),
        ({frozenset(): 1}, r"obj\[frozenset\(\)\]: a key of type frozenset"),
        ([[np.array([object()])]], r"obj\[0\]\[0\]: an array of Python objects"),
        ([np.zeros(3).view(Subclass)], r"obj\[0\]: <class '.*Subclass'> cannot be frozen"),
        ((lambda: 1,), r"obj\[0\]: <class 'function'> cannot be frozen"),
        ({1}, "obj: <class 'set'> cannot be frozen"),
        (np.array([object()]), "an array of Python objects"),
    ],
)
def test_what_cannot_be_frozen_is_named_with_its_place(value: Any, message: str) -> None:
    before = blocks()
    with pytest.raises(TypeError, match=message):
        forklift.freeze(value)
    assert blocks() == before


def test_scalars_and_frozen_things_are_returned_as_they_are() -> None:
    frozen = forklift.freeze([1])
    array = forklift.freeze(np.arange(3))
    for value in (None, 1, "a", b"b", 1.5, frozen, array, np.int8(3)):
        assert forklift.freeze(value) is value
    again = forklift.freeze([frozen, {"x": frozen}, array])
    assert again[:2] == [[1], {"x": [1]}]
    assert again[2].tolist() == [0, 1, 2]
    assert copy.copy(frozen) is frozen
    assert copy.deepcopy(frozen) is frozen


def test_over_the_budget(small_budget: int) -> None:
    with pytest.raises(forklift.OverBudgetError):
        forklift.freeze([b"x" * (small_budget + 1)])
    with pytest.raises(MemoryError):
        forklift.freeze(np.zeros(small_budget + 1, np.uint8))


def test_pickles_hold_a_copy() -> None:
    frozen = forklift.freeze({"a": [1, (2, b"3")], "b": np.arange(5)})
    stored = pickle.dumps(frozen)
    got = pickle.loads(stored)
    assert type(got) is FrozenDict
    assert got["a"] == frozen["a"]
    assert got["b"].tolist() == [0, 1, 2, 3, 4]
    array = pickle.loads(pickle.dumps(forklift.freeze(np.arange(5))))
    array[0] = 9  # an ordinary array
    assert array.tolist() == [9, 1, 2, 3, 4]


# --- bad input


def test_damaged_images_are_errors() -> None:
    frozen = forklift.freeze(
        {"a": ["x" * 20, 1, (2.5, 2**80)], "b": np.arange(20), "c": {str(i): i for i in range(20)}}
    )
    image = bytes(frozen._block)
    random = np.random.default_rng(1)
    raised = 0
    for _ in range(3000):
        damaged = bytearray(image)
        for _ in range(int(random.integers(1, 4))):
            damaged[int(random.integers(16, len(image)))] = int(random.integers(0, 256))
        block = _core.allocate(len(image), 1)
        memoryview(block)[:] = damaged
        block._seal()
        try:
            got = _core._open_frozen(block, 16)
            got.to_python()
            repr(got)
            got["a"], got["c"]["7"]
        except (ArithmeticError, LookupError, MemoryError, RuntimeError, TypeError, ValueError):
            raised += 1
    assert raised > 100


def test_other_memory_is_no_frozen_structure() -> None:
    block = _core.allocate(100, 1)
    for _ in range(2):
        with pytest.raises(forklift.CorruptError):
            _core._open_frozen(block, 16)
        block._seal()
    frozen = forklift.freeze([1, "a"])
    for offset in (0, 8, 15, 17, 1 << 60, 2**64 - 8, len(bytes(frozen._block))):
        with pytest.raises(forklift.CorruptError):
            _core._open_frozen(frozen._block, offset)

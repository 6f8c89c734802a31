"""The pickler's dispatch table: which reducer it finds for a type."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
from forklift import _core


def one(_: Any) -> Any: ...
def two(_: Any) -> Any: ...
def three(_: Any) -> Any: ...


class Plain: ...


class Lending:
    __dlpack__ = None


class Meta(type):
    def __getattribute__(cls, name: str) -> Any:
        if name == "__dlpack__":
            raise RuntimeError("not to be asked")
        return super().__getattribute__(name)


class Odd(metaclass=Meta): ...


def table(
    registered: Any = None, copyreg: Any = None, own: Any = None, preferred: Any = None, find: Any = None
) -> Any:
    return _core._ReducerTable(
        registered or {}, copyreg or {}, own or {}, preferred or {}, find or (lambda _: None)
    )


def test_the_first_dict_that_has_the_type_decides() -> None:
    assert table({Plain: one}, {Plain: two}, {Plain: three})[Plain] is one
    assert table({}, {Plain: two}, {Plain: three})[Plain] is two
    assert table({Plain: None}, {}, {Plain: three})[Plain] is three
    for kind in (int, Plain, Odd):
        with pytest.raises(KeyError) as unknown:
            table()[kind]
        assert unknown.value.args == (kind,)


def test_later_registrations_count() -> None:
    registered: dict[type, Any] = {}
    there = _core._ReducerTable(registered, {}, {}, {}, lambda _: None)
    with pytest.raises(KeyError):
        there[Plain]
    registered[Plain] = one
    assert there[Plain] is one
    del registered[Plain]
    with pytest.raises(KeyError):
        there[Plain]


def test_a_preferred_reducer_replaces_its_frameworks_alone() -> None:
    assert table({Plain: one}, preferred={Plain: (one, two)})[Plain] is two
    assert table({Plain: three}, preferred={Plain: (one, two)})[Plain] is three
    with pytest.raises(KeyError):
        table(preferred={Plain: (one, two)})[Plain]


def test_types_that_lend_are_asked_for() -> None:
    asked: list[type] = []

    def find(kind: type) -> Any:
        asked.append(kind)
        return one if kind is Lending else None

    there = table(find=find)
    assert there[Lending] is one
    with pytest.raises(KeyError):
        there[Plain]
    with pytest.raises(KeyError):
        there[type("Other", (), {"__dlpack__": None})]
    assert [kind.__name__ for kind in asked] == ["Lending", "Other"]

    def fail(_: type) -> Any:
        raise LookupError("no such array")

    with pytest.raises(LookupError, match="no such array"):
        table(find=fail)[Lending]


def test_wrong_arguments_and_circles() -> None:
    with pytest.raises(TypeError):
        _core._ReducerTable({}, {}, {}, {})  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        _core._ReducerTable([], {}, {}, {}, None)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        _core._ReducerTable({}, {}, {}, {}, find=None)  # type: ignore[call-arg]

    class Holder: ...

    holder: Any = Holder()
    holder.table = _core._ReducerTable({}, {}, {Plain: holder}, {}, None)  # type: ignore[arg-type]
    gone = weakref.ref(holder)
    del holder
    gc.collect()
    assert gone() is None

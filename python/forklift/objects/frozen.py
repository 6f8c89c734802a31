"""``share`` and ``freeze`` make objects with one copy in shared memory, which all processes use.

    table = forklift.freeze({"words": words, "vectors": vectors})   # copied once, into shared memory
    with Pool(8) as pool:
        pool.map(look_up, [(table, query) for query in queries])    # each task carries a handle

Frozen objects cannot be changed. A frozen array is a NumPy array that cannot be made writable; a frozen list,
tuple or dict reads an item from shared memory at each access, so a forked worker that reads a million items
dirties no page. ``share`` makes arrays that all processes may write.

Frozen objects and shared arrays travel as handles through queues, pipes and pools, and as arguments of
processes; their memory is freed when the last process has dropped them. Any number of threads and processes
may read them at once. The program must order the writes to shared arrays itself.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from multiprocessing.context import get_spawning_popen
from typing import Any, TypeVar, overload

from forklift import _core

__all__ = ["FrozenDict", "FrozenList", "FrozenTuple", "freeze", "open_frozen", "share", "thaw"]

_T = TypeVar("_T")
_SHARED = 1
_SHOWN = 20


def _travels() -> bool:
    return _core.in_message() or get_spawning_popen() is not None


def _open(block: _core.Block, offset: int) -> Any:
    return _core._open_frozen(block, offset)


class _Frozen(_core.FrozenNode):
    """The base of FrozenList, FrozenTuple and FrozenDict."""

    __slots__ = ()

    def _shallow(self) -> Any:
        raise NotImplementedError

    def to_python(self) -> Any:
        """An ordinary list, tuple or dict of ordinary objects; arrays are private, writable copies."""
        raise NotImplementedError

    def __reduce__(self) -> Any:
        if _travels():
            return (_open, (self._block, self._offset))
        return (freeze, (self.to_python(),))  # by value, in files and in other packages' pickles

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, _memo: Any) -> Any:
        return self


def _shown(parts: Any, count: int) -> str:
    text = ", ".join(islice(parts, _SHOWN))
    return text if count <= _SHOWN else f"{text}, ... {count} items"


class _FrozenSequence(_Frozen):
    __slots__ = ()

    def __iter__(self) -> Iterator[Any]:
        item = self.__getitem__
        return map(item, range(len(self)))

    def __reversed__(self) -> Iterator[Any]:
        return map(self.__getitem__, range(len(self) - 1, -1, -1))

    def __contains__(self, value: Any) -> bool:
        return any(item is value or item == value for item in self)

    def index(self, value: Any, start: int = 0, stop: int | None = None) -> int:
        """The first place at which an item equals `value`. ValueError if there is none."""
        for i in range(*slice(start, stop).indices(len(self))):
            item = self[i]
            if item is value or item == value:
                return i
        raise ValueError(f"{value!r} is not in it")

    def count(self, value: Any) -> int:
        """How many items equal `value`."""
        return sum(1 for item in self if item is value or item == value)

    def __add__(self, other: Any) -> Any:
        return self._shallow() + (other._shallow() if isinstance(other, _FrozenSequence) else other)

    def __radd__(self, other: Any) -> Any:
        return other + self._shallow()

    def _equals(self, other: Any, kind: type) -> Any:
        if type(other) is not type(self) and not isinstance(other, kind):
            return NotImplemented
        items: Any = other
        return len(self) == len(items) and all(map(_equal, self, items))


class FrozenList(_FrozenSequence):
    """A frozen list, read in place. It equals a list of equal items; its slices are ordinary lists."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def _shallow(self) -> list[Any]:
        return list(self)

    def to_python(self) -> list[Any]:
        return [thaw(item) for item in self]

    def __eq__(self, other: object) -> Any:
        return self._equals(other, list)

    def __repr__(self) -> str:
        return f"FrozenList([{_shown(map(repr, self), len(self))}])"


class FrozenTuple(_FrozenSequence):
    """A frozen tuple, read in place. It equals, and hashes as, a tuple of equal items; slices are tuples."""

    __slots__ = ()

    def _shallow(self) -> tuple[Any, ...]:
        return tuple(self)

    def to_python(self) -> tuple[Any, ...]:
        return tuple(thaw(item) for item in self)

    def __eq__(self, other: object) -> Any:
        return self._equals(other, tuple)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        comma = "," if len(self) == 1 else ""
        return f"FrozenTuple(({_shown(map(repr, self), len(self))}{comma}))"


class FrozenDict(_Frozen, Mapping):  # type: ignore[type-arg]
    """A frozen dictionary, read in place. It keeps its order, and equals a mapping of equal items."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    __getitem__ = _core.FrozenNode.__getitem__
    __len__ = _core.FrozenNode.__len__

    def __iter__(self) -> Iterator[Any]:
        return (self._entry(i, 0) for i in range(len(self)))

    def __reversed__(self) -> Iterator[Any]:
        return (self._entry(i, 0) for i in range(len(self) - 1, -1, -1))

    def __contains__(self, key: object) -> bool:
        return self._find(key) >= 0

    def get(self, key: Any, default: Any = None) -> Any:
        """The value of `key`, or `default`."""
        i = self._find(key)
        return default if i < 0 else self._entry(i, 1)

    def _shallow(self) -> dict[Any, Any]:
        return {self._entry(i, 0): self._entry(i, 1) for i in range(len(self))}

    def to_python(self) -> dict[Any, Any]:
        return {thaw(key): thaw(value) for key, value in self._shallow().items()}

    def __eq__(self, other: object) -> Any:
        if not isinstance(other, Mapping):
            return NotImplemented
        if len(self) != len(other):
            return False
        return all(key in other and _equal(self._entry(i, 1), other[key]) for i, key in enumerate(self))

    def __or__(self, other: Any) -> Any:
        return self._shallow() | dict(other) if isinstance(other, Mapping) else NotImplemented

    def __ror__(self, other: Any) -> Any:
        return dict(other) | self._shallow() if isinstance(other, Mapping) else NotImplemented

    def __repr__(self) -> str:
        parts = (f"{self._entry(i, 0)!r}: {self._entry(i, 1)!r}" for i in range(len(self)))
        return f"FrozenDict({{{_shown(parts, len(self))}}})"


Sequence.register(FrozenList)
Sequence.register(FrozenTuple)
_core._set_frozen_classes(FrozenList, FrozenTuple, FrozenDict)


def _equal(a: Any, b: Any) -> bool:
    # As a list compares its items: an array's == has no truth value, so it raises, as it does in a list.
    return a is b or bool(a == b)


def _numpy(kind: str, obj: Any) -> bool:
    """Tells whether `obj` is an instance of NumPy's class `kind`. False if NumPy is not imported."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(obj, getattr(numpy, kind))


def _array_over(array: Any, mode: int) -> Any:
    """A copy of an array in shared memory; in Fortran order if the array has that, else in C order."""
    import numpy as np

    if type(array) is not np.ndarray:
        raise TypeError(f"{type(array)} cannot be shared or frozen: an ndarray can (np.asarray makes one)")
    if array.dtype.hasobject:
        raise TypeError("an array of Python objects cannot be shared or frozen")
    block = _core.allocate(array.nbytes, _SHARED, False)
    order: Any = "F" if array.flags.fnc else "C"
    copy = np.ndarray(array.shape, array.dtype, block, order=order)
    copy[...] = array
    if mode == _SHARED:
        return copy
    block._seal()
    return np.ndarray(array.shape, array.dtype, block, order=order)


def share(obj: _T) -> _T:
    """A copy of an array in memory that all processes see and may write.

    Sending the array, or a view of it, sends a handle; the receiver sees the same memory. An array that is
    shared already is returned as it is. A list, tuple or dict, however nested, is rebuilt from ordinary
    lists, tuples and dicts in which each array is shared. It may also hold numbers, strings, bytes, None, and
    frozen and shared objects.

    TypeError, which names the place, for anything else and for arrays of Python objects; ValueError for a
    container that contains itself; OverBudgetError when there is not enough memory.
    """
    shared: _T = _share(obj, (), {}, [])
    return shared


def _share(obj: Any, path: tuple[Any, ...], made: dict[int, Any], open_: list[int]) -> Any:
    if obj is None or type(obj) in _PLAIN or isinstance(obj, (_Frozen, _core.Tensor)):
        return obj
    if _numpy("generic", obj):
        return obj
    if id(obj) in made:
        return made[id(obj)]
    if id(obj) in open_:
        raise ValueError(f"obj{_path(path)}: it contains itself")
    if _numpy("ndarray", obj):
        if _core.block_under(obj) is not None:
            return obj
        try:
            shared = _array_over(obj, _SHARED)
        except TypeError as error:
            raise TypeError(f"obj{_path(path)}: {error}") from None
    elif type(obj) in (list, tuple, dict):
        open_.append(id(obj))
        if type(obj) is dict:
            shared = {key: _share(value, (*path, key), made, open_) for key, value in obj.items()}
        else:
            shared = type(obj)(_share(item, (*path, i), made, open_) for i, item in enumerate(obj))
        open_.pop()
    else:
        raise TypeError(f"obj{_path(path)}: {type(obj)} cannot be shared")
    made[id(obj)] = shared
    return shared


_PLAIN = (bool, int, float, complex, str, bytes)


def _path(path: tuple[Any, ...]) -> str:
    return "".join(f"[{step!r}]" for step in path)


@overload
def freeze(obj: list[Any]) -> FrozenList: ...
@overload
def freeze(obj: tuple[Any, ...]) -> FrozenTuple: ...
@overload
def freeze(obj: dict[Any, Any]) -> FrozenDict: ...
@overload
def freeze(obj: _T) -> _T: ...
def freeze(obj: Any) -> Any:
    """A copy of an array or container, in shared memory, that cannot be changed.

    An array becomes a NumPy array that is read-only in every process and cannot be made writable. A list,
    tuple or dict becomes a ``FrozenList``, ``FrozenTuple`` or ``FrozenDict``, which lies in one block with
    everything in it: nested lists, tuples and dicts, NumPy arrays and scalars, strings, bytes, numbers, None.
    Keys are strings, bytes, numbers, None and tuples of these. Strings, bytes, numbers, None and objects that
    are frozen already are returned as they are.

    TypeError for anything else, with the place (``obj['a'][3]: <class 'set'> cannot be frozen``); ValueError
    for a container that contains itself; OverBudgetError when there is not enough memory.
    """
    if type(obj) in (list, tuple, dict):
        return _core.freeze_container(obj)
    if obj is None or type(obj) in _PLAIN or isinstance(obj, _Frozen):
        return obj
    if _numpy("generic", obj):
        return obj
    if _numpy("ndarray", obj):
        block = _core.block_under(obj)
        if block is not None and block.mode != _SHARED:
            return obj
        return _array_over(obj, 2)
    raise TypeError(f"obj: {type(obj)} cannot be frozen")


def open_frozen(memory: Any) -> Any:
    """The frozen container in memory that a C++ program sent.

    ``memory`` is a ``forklift.Tensor`` of bytes, or the NumPy array over one. TypeError for anything else,
    CorruptError if the memory does not hold a frozen container.
    """
    tensor = memory if isinstance(memory, _core.Tensor) else getattr(memory, "base", None)
    if not isinstance(tensor, _core.Tensor):
        raise TypeError(f"the memory of a frozen object is a forklift.Tensor of bytes, not {type(memory)}")
    return _core._frozen_over(tensor)


def thaw(obj: Any) -> Any:
    """The ordinary object: ``to_python()`` of a container; of an array a private, writable copy."""
    if isinstance(obj, _Frozen):
        return obj.to_python()
    if _core.block_under(obj) is not None:
        return obj.copy(order="K")
    return obj

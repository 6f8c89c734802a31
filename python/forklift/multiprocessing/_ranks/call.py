"""The function and the arguments of all ranks, pickled once.

Most of a pickle is the same for all ranks: it is made once, and lies in memory from which all of them read.
Objects of which each child needs its own (Forklift's queues, locks and shared arrays, connections, torch's
tensors) are left out of it. They are pickled with each rank's process object, as arguments of a process are.
"""

from __future__ import annotations

import functools
import os
import pickle
import types
from multiprocessing import context as _std_context
from multiprocessing import reduction as _std_reduction

from forklift.multiprocessing._ranks.files import NamelessFile
from forklift.multiprocessing._ranks.rank import PickledCall, own_object
from forklift.multiprocessing._start.invitation import descriptor_for_child
from forklift.reducers import spawn_table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

__all__ = ["ForkedCall", "SharedCall"]

# A shorter pickle is sent with each rank's process object: a pipe takes it without waiting for the child.
_SHORT = 16 * 1024
_registered: Any = _std_reduction.ForkingPickler._extra_reducers  # type: ignore[attr-defined]
# The reducers that the standard library itself registers for all children alike.
_FOR_ALL = frozenset({types.MethodType, type(list.append), type(int.__add__), functools.partial})
_BY_NAME = (type, types.FunctionType, types.BuiltinFunctionType)


class ForkedCall:
    """A function with its arguments, which a forked rank has already."""

    def __init__(self, function: Callable[..., object], args: Iterable[Any]) -> None:
        self._call = (function, args)

    def __call__(self) -> tuple[Callable[..., object], Iterable[Any]]:
        return self._call


class _ForOneChild(BaseException):
    """Raised when an object is pickled that needs to know which child it is for."""


class _AnyChild:
    """Stands for the child that is being started while the common pickle is made."""

    def __getattribute__(self, name: str) -> Any:
        raise _ForOneChild

    def __setattr__(self, name: str, value: Any) -> None:
        raise _ForOneChild


_any_child: Any = _AnyChild()


class _CommonPickler(_std_reduction.ForkingPickler):
    def __init__(self, file: Any, table: Any) -> None:
        super().__init__(file)
        self.dispatch_table = table
        self.own: list[Any] = []

    def reducer_override(self, obj: Any) -> Any:
        kind = type(obj)
        if issubclass(kind, _BY_NAME):
            return NotImplemented
        try:
            if kind in _registered and kind not in _FOR_ALL:
                raise _ForOneChild  # some of these count their receivers, and each pickle has one
            reducer = self.dispatch_table.get(kind)
            return obj.__reduce_ex__(pickle.DEFAULT_PROTOCOL) if reducer is None else reducer(obj)
        except _ForOneChild:
            self.own.append(obj)
            return own_object, (len(self.own) - 1,)


class SharedCall:
    """A function with its arguments for ranks that are fresh interpreters, or a fork server's children.

    Raises what the pickler raises if they cannot be pickled.
    """

    def __init__(self, function: Callable[..., object], args: Iterable[Any]) -> None:
        common = NamelessFile()
        before = _std_context.get_spawning_popen()
        _std_context.set_spawning_popen(_any_child)
        try:
            with open(common.fd, "wb", closefd=False) as file:
                pickler = _CommonPickler(file, spawn_table())
                pickler.dump((function, args))
        finally:
            _std_context.set_spawning_popen(before)
        self._own = pickler.own
        self._size = os.fstat(common.fd).st_size
        self._common: Any = common if self._size > _SHORT else _contents(common.fd)

    def __reduce__(self) -> Any:
        pickled = self._common if isinstance(self._common, bytes) else descriptor_for_child(self._common.fd)
        return PickledCall, (pickled, self._size, self._own)


def _contents(fd: int) -> bytes:
    with open(fd, "rb", closefd=False) as file:
        file.seek(0)
        return file.read()

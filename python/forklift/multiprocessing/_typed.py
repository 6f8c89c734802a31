"""The signatures of a context's makers of shared values, for type checkers. Never imported at run time."""

from __future__ import annotations

import ctypes
from _ctypes import _CData
from collections.abc import Sequence
from ctypes import _SimpleCData, c_char
from multiprocessing.sharedctypes import Synchronized, SynchronizedArray, SynchronizedString
from typing import Any, Literal, TypeAlias, TypeVar, overload

from forklift.multiprocessing import synchronize

_LockLike: TypeAlias = synchronize.Lock | synchronize.RLock
_T = TypeVar("_T")
_C = TypeVar("_C", bound=_CData)


class TypedConstructors:
    @overload
    def RawValue(self, typecode_or_type: type[_C], *args: Any) -> _C: ...
    @overload
    def RawValue(self, typecode_or_type: str, *args: Any) -> Any: ...
    def RawValue(self, typecode_or_type: Any, *args: Any) -> Any: ...

    @overload
    def RawArray(
        self, typecode_or_type: type[_C], size_or_initializer: int | Sequence[Any]
    ) -> ctypes.Array[_C]: ...
    @overload
    def RawArray(self, typecode_or_type: str, size_or_initializer: int | Sequence[Any]) -> Any: ...
    def RawArray(self, typecode_or_type: Any, size_or_initializer: Any) -> Any: ...

    @overload
    def Value(
        self,
        typecode_or_type: type[_SimpleCData[_T]],
        *args: Any,
        lock: Literal[True] | _LockLike = True,
    ) -> Synchronized[_T]: ...
    @overload
    def Value(self, typecode_or_type: type[_C], *args: Any, lock: Literal[False]) -> _C: ...
    @overload
    def Value(
        self, typecode_or_type: str, *args: Any, lock: Literal[True] | _LockLike = True
    ) -> Synchronized[Any]: ...
    @overload
    def Value(
        self, typecode_or_type: str | type[_CData], *args: Any, lock: bool | _LockLike = True
    ) -> Any: ...
    def Value(self, typecode_or_type: Any, *args: Any, lock: Any = True) -> Any: ...

    @overload
    def Array(
        self,
        typecode_or_type: type[_C],
        size_or_initializer: int | Sequence[Any],
        *,
        lock: Literal[False],
    ) -> ctypes.Array[_C]: ...
    @overload
    def Array(
        self,
        typecode_or_type: type[c_char],
        size_or_initializer: int | Sequence[Any],
        *,
        lock: Literal[True] | _LockLike = True,
    ) -> SynchronizedString: ...
    @overload
    def Array(
        self,
        typecode_or_type: type[_SimpleCData[_T]],
        size_or_initializer: int | Sequence[Any],
        *,
        lock: Literal[True] | _LockLike = True,
    ) -> SynchronizedArray[_T]: ...
    @overload
    def Array(
        self,
        typecode_or_type: str,
        size_or_initializer: int | Sequence[Any],
        *,
        lock: Literal[True] | _LockLike = True,
    ) -> SynchronizedArray[Any]: ...
    @overload
    def Array(
        self,
        typecode_or_type: str | type[_CData],
        size_or_initializer: int | Sequence[Any],
        *,
        lock: bool | _LockLike = True,
    ) -> Any: ...
    def Array(self, typecode_or_type: Any, size_or_initializer: Any, *, lock: Any = True) -> Any: ...

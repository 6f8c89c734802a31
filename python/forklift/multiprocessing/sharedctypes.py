"""ctypes objects in shared memory: the standard library's wrappers over the arena's memory.

    counter = Value("i", 0)                   # has a lock of its own
    with counter.get_lock():
        counter.value += 1
    table = Array("d", 1000)                  # zeroed

The memory has no file, descriptor or name. It is freed when the last process has dropped the object.
"""

from __future__ import annotations

import ctypes
from multiprocessing import reduction
from multiprocessing import sharedctypes as _std
from multiprocessing.context import assert_spawning  # noqa: F401
from multiprocessing.sharedctypes import Synchronized as Synchronized
from multiprocessing.sharedctypes import SynchronizedArray as SynchronizedArray
from multiprocessing.sharedctypes import SynchronizedBase as SynchronizedBase
from multiprocessing.sharedctypes import SynchronizedString as SynchronizedString

from forklift._core import block_address as _address
from forklift.multiprocessing import heap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Array", "RawArray", "RawValue", "Value", "copy", "synchronized"]

# Parts of the standard library's module that its stubs do not name.
_parts: Any = _std
class_cache = _parts.class_cache
make_property = _parts.make_property
prop_cache = _parts.prop_cache
rebuild_ctype = _parts.rebuild_ctype
reduce_ctype = _parts.reduce_ctype
template = _parts.template
typecode_to_type: dict[str, Any] = _parts.typecode_to_type
_register = reduction.register
_reducers: dict[Any, Any] = reduction.ForkingPickler._extra_reducers  # type: ignore[attr-defined]
_sizeof = ctypes.sizeof
_Simple: Any = ctypes._SimpleCData


def _new_value(type_: Any) -> Any:
    """A zeroed object in new memory; does what rebuild_ctype() does for received memory.

    The object keeps its memory by `_wrapper` alone. As a buffer (from_buffer) it would keep two more objects
    that Python's garbage collector has to visit, which takes longer than the memory does.
    """
    block = heap.allocate(_sizeof(type_))
    if _reducers.get(type_) is not reduce_ctype:
        _register(type_, reduce_ctype)
    obj = type_.from_address(_address(block))
    obj._wrapper = block
    return obj


def RawValue(typecode_or_type: Any, *args: Any) -> Any:
    """A ctypes object in shared memory without a lock, zeroed and then initialised with `args`."""
    return _initialised(typecode_or_type, args)


def _initialised(typecode_or_type: Any, args: tuple[Any, ...]) -> Any:
    obj = _new_value(typecode_to_type.get(typecode_or_type, typecode_or_type))
    obj.__init__(*args)
    return obj


def RawArray(typecode_or_type: Any, size_or_initializer: Any) -> Any:
    """A ctypes array in shared memory without a lock: of so many zeros, or with the items of a sequence."""
    type_ = typecode_to_type.get(typecode_or_type, typecode_or_type)
    if isinstance(size_or_initializer, int):
        return _new_value(type_ * size_or_initializer)
    obj = _new_value(type_ * len(size_or_initializer))
    obj.__init__(*size_or_initializer)
    return obj


def _default() -> Any:
    from forklift.multiprocessing.context import _default_context  # not needed to receive ctypes objects

    return _default_context.get_context()


def _with_lock(obj: Any, lock: Any, ctx: Any) -> Any:
    if lock is False:
        return obj
    ctx = ctx or _default()
    if lock in (True, None):
        lock = ctx.RLock()
    elif not hasattr(lock, "acquire"):
        raise AttributeError(f"{lock!r} has no method 'acquire'")
    # The choice of _parts.synchronized(), without its other checks: what comes here was made here.
    if isinstance(obj, _Simple):
        return Synchronized(obj, lock, ctx)
    if isinstance(obj, ctypes.Array):
        return (SynchronizedString if obj._type_ is ctypes.c_char else SynchronizedArray)(obj, lock, ctx)
    return _parts.synchronized(obj, lock, ctx)


def Value(typecode_or_type: Any, *args: Any, lock: Any = True, ctx: Any = None) -> Any:
    """A value in shared memory with a lock: a new RLock, the one that is given, or none (lock=False)."""
    return make_value(typecode_or_type, args, lock, ctx)


def make_value(typecode_or_type: Any, args: tuple[Any, ...], lock: Any, ctx: Any) -> Any:
    """What Value() does, for the contexts: by position, which takes less than `*args` beside keywords."""
    return _with_lock(_initialised(typecode_or_type, args), lock, ctx)


def Array(typecode_or_type: Any, size_or_initializer: Any, *, lock: Any = True, ctx: Any = None) -> Any:
    """An array in shared memory with a lock: a new RLock, the one that is given, or none (lock=False)."""
    return make_array(typecode_or_type, size_or_initializer, lock, ctx)


def make_array(typecode_or_type: Any, size_or_initializer: Any, lock: Any, ctx: Any) -> Any:
    """What Array() does, as make_value() is to Value()."""
    return _with_lock(RawArray(typecode_or_type, size_or_initializer), lock, ctx)


def copy(obj: Any) -> Any:
    """A copy of a ctypes object in shared memory."""
    new_obj = _new_value(type(obj))
    ctypes.pointer(new_obj)[0] = obj
    return new_obj


def synchronized(obj: Any, lock: Any = None, ctx: Any = None) -> Any:
    """A wrapper of a ctypes object whose methods acquire `lock` (None: a new RLock)."""
    return _parts.synchronized(obj, lock, ctx or _default())


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        return getattr(_std, name)

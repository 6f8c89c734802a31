"""The reducers of Forklift's pickler, with which values arrive as they do from the standard library's queues.

Up to Python 3.13 the standard library pickles with protocol 4; Forklift uses protocol 5, which has
out-of-band buffers. Reducers that a program registers (``ForkingPickler.register``, ``copyreg``) precede
these.
"""

from __future__ import annotations

import copyreg
import pickle
import sys
from collections import ChainMap
from collections.abc import Callable
from multiprocessing import context as _std_context
from multiprocessing.reduction import ForkingPickler

from forklift import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "claim_block",
    "describe_dtype",
    "dispatch_table",
    "numpy_was_loaded",
    "offer_block",
    "offer_tensor",
    "prefer",
    "rebuild_device_event",
    "rebuild_foreign",
    "rebuild_shared_array",
    "rebuild_tensor",
    "registered_tables",
    "spawn_table",
    "take_block",
]

_ours: dict[type, Callable[[Any], Any]] = {}
_spawned: dict[type, Callable[[Any], Any]] = {}
_registered: dict[type, Any] = ForkingPickler._extra_reducers  # type: ignore[attr-defined]
_preferred: dict[type, tuple[Any, Callable[[Any], Any]]] = {}


def _find(kind: type) -> Callable[[Any], Any] | None:
    from forklift.adapters.producers import reducer_of

    return reducer_of(kind)


def dispatch_table() -> _core._ReducerTable:
    """Return a pickler's dispatch table. It looks types up at each access, so later registrations count."""
    return _core._ReducerTable(_registered, copyreg.dispatch_table, _ours, _preferred, _find)


def prefer(replacements: dict[type, tuple[Any, Callable[[Any], Any]]]) -> None:
    """Use Forklift's reducers instead of those that a framework has registered.

    Each type maps to (the framework's reducer, Forklift's). If the program registers any other reducer for
    the type, before or after this call, that one is used.
    """
    _preferred.update(replacements)


def registered_tables() -> tuple[dict[type, Any], dict[type, Any]]:
    """The tables in which programs register reducers."""
    return (_registered, copyreg.dispatch_table)


def spawn_table() -> Any:
    """The dispatch table for the arguments of a child that is being started."""
    _core.block_under(None)  # makes the core call numpy_was_loaded() if the program has imported NumPy
    return ChainMap(_registered, copyreg.dispatch_table, _spawned)


def _reduce_shared(array: Any) -> Any:
    """Reduce an array in a shared or frozen block to the block and its place in it. None for other arrays."""
    block = _core.block_under(array)
    if block is None:
        return None
    offset = array.__array_interface__["data"][0] - _core.block_address(block)
    if array.size == 0:
        offset = 0
    state = (block, array.shape, array.dtype, offset, array.strides, array.flags.writeable)
    return rebuild_shared_array, state


def rebuild_shared_array(
    block: _core.Block, shape: Any, dtype: Any, offset: int, strides: Any, writeable: bool
) -> Any:
    """An array in a block that other processes see, too. `offset` and `strides` are in bytes."""
    import numpy as np

    array = np.ndarray(shape, dtype, block, offset, strides)
    if not writeable:
        array.flags.writeable = False
    return array


def describe_dtype(dtype: Any) -> tuple[bytes | None, int]:
    """(a dtype's pickle for a frozen structure, its item's bytes); None for a dtype with Python objects."""
    return (None if dtype.hasobject else pickle.dumps(dtype, 4), dtype.itemsize)


def rebuild_foreign(block: _core.Block, shape: Any, descr: bytes, offset: int) -> Any:
    """An array in a frozen structure, of a dtype that only NumPy knows; `descr` is the dtype's pickle."""
    return rebuild_shared_array(block, shape, pickle.loads(descr), offset, None, False)


def take_block(lease: int, mode: int) -> _core.Block:
    """The block of a pickled message: `lease` is the index of its handle in the message."""
    return _core._take_block(lease, mode)


def offer_block(block: _core.Block) -> Any:
    """Reduce a block among a child's arguments; the child becomes one of its holders."""
    popen = _std_context.get_spawning_popen()
    if popen is None:
        raise RuntimeError(
            "shared memory should only be shared between processes through inheritance, "
            "or as an argument of a process that is started"
        )
    from forklift.multiprocessing._start.invitation import invitation_for

    invitation = invitation_for(popen)
    return claim_block, (invitation, block._offer(*invitation.slot))


def claim_block(_joined: None, handle: Any) -> _core.Block:
    """In the child: the block that its parent offered."""
    return _core.claim_block(*handle)


def _reduce_array(array: Any) -> Any:
    shared = _reduce_shared(array)
    if shared is not None:
        return shared
    if array.dtype.isbuiltin == 2:  # a dtype that another package registered with NumPy
        from forklift.adapters.producers import reduce_small_floats

        reduced = reduce_small_floats(array)
        if reduced is not None:
            return reduced
    if sys.version_info >= (3, 14):
        return array.__reduce_ex__(5)
    # With protocol 4, arrays of the other byte order arrive in the machine's own, and read-only arrays arrive
    # writable. Protocol 5 would keep both properties.
    return array.__reduce_ex__(5 if array.dtype.isnative and array.flags.writeable else 4)


def _reduce_argument(array: Any) -> Any:
    return _reduce_shared(array) or array.__reduce_ex__(4)


def numpy_was_loaded(array_type: type) -> None:
    _ours[array_type] = _reduce_array
    _spawned[array_type] = _reduce_argument


def offer_tensor(tensor: _core.Tensor) -> Any:
    """Reduce a tensor among a child's arguments; the child becomes one of the holders of its memory."""
    popen = _std_context.get_spawning_popen()
    if popen is None:
        raise TypeError(
            "a forklift.Tensor is memory: send it through one of Forklift's queues or as an argument of a "
            "process, or pickle tensor.numpy()"
        )
    from forklift.multiprocessing._start.invitation import invitation_for

    invitation = invitation_for(popen)
    return claim_tensor, (invitation, *_core._offer_tensor(tensor, *invitation.slot))


def claim_tensor(_joined: None, meta: bytes, handle: Any) -> _core.Tensor:
    """In the child: the tensor that its parent offered."""
    return _core._claim_tensor(meta, handle)


def rebuild_device_event(handle: bytes) -> _core.DeviceEvent:
    """The event of a pickled message, opened in this process."""
    return _core._open_device_event(handle)


def rebuild_tensor(meta: bytes) -> _core.Tensor:
    """The tensor of a pickled message. `meta`: its description and the index of its handle in the message."""
    return _core._rebuild_tensor(meta)

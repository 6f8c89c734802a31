"""What the pickler does differently, so that values arrive as from the standard library's queues.

Up to Python 3.13 those pickle with protocol 4, we with protocol 5 for its out-of-band buffers. Reducers that
a program registers (``ForkingPickler.register``, ``copyreg``) go before these.
"""

from __future__ import annotations

import copyreg
import sys
from collections import ChainMap
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any

from forklift import _core

__all__ = ["dispatch_table", "numpy_was_loaded", "rebuild_tensor", "registered_tables"]

_ours: dict[type, Callable[[Any], Any]] = {}
_registered: dict[type, Any] = ForkingPickler._extra_reducers  # type: ignore[attr-defined]


def dispatch_table() -> Any:
    """A pickler's table: live, so that later registrations count."""
    return ChainMap(_registered, copyreg.dispatch_table, _ours)


def registered_tables() -> tuple[dict[type, Any], dict[type, Any]]:
    """Where programs register reducers."""
    return (_registered, copyreg.dispatch_table)


def _reduce_array(array: Any) -> Any:
    # Protocol 4 brings arrays of the other byte order in the machine's own, and read-only ones as writable;
    # protocol 5 keeps both.
    return array.__reduce_ex__(5 if array.dtype.isnative and array.flags.writeable else 4)


def numpy_was_loaded(array_type: type) -> None:
    if sys.version_info < (3, 14):
        _ours[array_type] = _reduce_array


def rebuild_tensor(meta: bytes) -> _core.Tensor:
    """A tensor inside a pickled message: its handle is one of the message's."""
    return _core._rebuild_tensor(meta)

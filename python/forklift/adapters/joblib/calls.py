"""How joblib's batches of calls go to workers: what the main module defines travels by value.

Workers are kept, so they may be older than a function or class of the main module, or have an older version
of it. cloudpickle sends those, lambdas and closures by value, as loky does; everything else goes by name.
Large arrays, tensors and Forklift's own objects travel beside the pickle, as in any message.
"""

from __future__ import annotations

import io
import pickle
import sys
import threading
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from types import BuiltinFunctionType, FunctionType
from typing import Any

try:
    import cloudpickle  # type: ignore[import-untyped,unused-ignore]
except ImportError:  # joblib before 1.6 has its own
    from joblib.externals import cloudpickle  # type: ignore[import-untyped,unused-ignore,no-redef]

__all__ = ["sendable"]

# Smaller arrays are copied within the pickle.
_BESIDE_BYTES = 16 << 10
_PLAIN = frozenset({int, float, complex, bool, str, bytes, type(None)})
_FUNCTIONS = frozenset({FunctionType, BuiltinFunctionType})
_NOWHERE = frozenset({"__main__", None})
# Packages whose objects know how to travel in a message.
_TRAVELLERS = frozenset({"forklift", "multiprocessing", "jax", "jaxlib", "cupy"})
_arrived = threading.local()


def sendable(batch: Any) -> tuple[Any, ...]:
    """The function and arguments that run a batch in a worker. Raises whatever pickling raises."""
    for call in batch.items:
        if not _goes_by_name(*call):
            return (_run, *_Packer().pack(batch))
    return (batch,)


def _goes_by_name(function: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> bool:
    """Tells whether a call's function is found by its name anywhere, and its arguments are plain."""
    if type(function) not in _FUNCTIONS or (module := function.__module__) in _NOWHERE:
        return False
    if getattr(sys.modules.get(module), function.__qualname__, None) is not function:
        return False
    for value in (*arguments, *named.values()) if named else arguments:
        if type(value) not in _PLAIN and not _is_array(value):
            return False
    return True


def _is_array(value: Any) -> bool:
    kind = type(value)
    return kind.__name__ == "ndarray" and kind.__module__ == "numpy" and not value.dtype.hasobject


class _Packer(cloudpickle.Pickler):  # type: ignore[misc]
    def __init__(self) -> None:
        self._file = io.BytesIO()
        self._beside: list[Any] = []
        super().__init__(self._file, protocol=5)

    def pack(self, batch: Any) -> tuple[bytes, list[Any]]:
        """The pickle, and the objects that travel beside it."""
        self.dump(batch)
        return self._file.getvalue(), self._beside

    def reducer_override(self, obj: Any) -> Any:
        if _travels_beside(obj):
            self._beside.append(obj)
            return _beside, (len(self._beside) - 1,)
        return super().reducer_override(obj)


def _travels_beside(obj: Any) -> bool:
    kind = type(obj)
    if _is_array(obj):
        return bool(obj.nbytes >= _BESIDE_BYTES)
    if kind.__module__ == "builtins":
        return False
    if kind.__module__.partition(".")[0] in _TRAVELLERS or kind in ForkingPickler._extra_reducers:  # type: ignore[attr-defined]
        return True
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(obj, getattr(torch, "Tensor", ()))


def _beside(index: int) -> Any:
    """In the worker: an object that came beside the pickle."""
    return _arrived.objects[index]


def _run(data: bytes, beside: list[Any]) -> Any:
    """In the worker."""
    _arrived.objects = beside
    try:
        batch: Callable[[], Any] = pickle.loads(data)
    finally:
        del _arrived.objects, beside
    return batch()

"""Sends arrays of frameworks that the core does not know.

The pickler asks `reducer_of` for every type that has no entry in its tables. The receiver gets what the
standard library's pickle would have made, but fewer bytes are copied:

- the elements of a JAX array are copied once, into shared memory, where the receiving JAX uses them;
- a NumPy array of a type of ml_dtypes is pickled out of band, which NumPy itself does not do for such types;
- an object with ``__dlpack__`` on a GPU (CuPy's arrays) travels as a handle to the same memory;
- any other object with ``__dlpack__`` is pickled as its class defines. If that is impossible, its elements
  are sent, and the receiver gets what the ``from_dlpack`` of the object's package makes of them, or a
  `forklift.Tensor` (or `Carried`) if the package has no such function.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

from forklift import _core
from forklift.adapters.carried import Carried, bits_of, fits_inline, ml_dtype, small_float
from forklift.errors import NotFoundError

__all__ = ["rebuild_jax", "rebuild_produced", "rebuild_small_floats", "reducer_of"]


def reducer_of(kind: type) -> Callable[[Any], Any] | None:
    """The reducer for a type with ``__dlpack__``; None for all other types."""
    if not hasattr(kind, "__dlpack__"):
        return None
    if kind.__name__ == "ArrayImpl" and kind.__module__.partition(".")[0] in ("jaxlib", "jax"):
        return _reduce_jax
    return _reduce_producer


# --- NumPy arrays of ml_dtypes' types


def reduce_small_floats(array: Any) -> Any:
    """Reduce a large array in C or Fortran order; None for all others, which NumPy's own pickling copies."""
    if not (array.flags.c_contiguous or array.flags.f_contiguous) or fits_inline(array):
        return None
    return rebuild_small_floats, (bits_of(array), array.dtype.name)


def rebuild_small_floats(bits: Any, name: str) -> Any:
    kind = ml_dtype(name)
    if kind is None:
        import ml_dtypes

        raise TypeError(f"ml_dtypes {ml_dtypes.__version__} has no {name}")
    return bits.view(kind)


# --- JAX


def _carry(array: Any) -> Any:
    """The form in which a NumPy array travels: a large one as a Tensor, one of ml_dtypes as a Carried."""
    small = small_float(array.dtype)
    bits = bits_of(array) if small else array
    if not fits_inline(array):
        # Not read-only: the receiver gets a copy of its own.
        tensor = _core.Tensor.from_numpy(bits)
        bits = _core._view(tensor, tensor.dtype)
    return Carried(bits, array.dtype.name) if small else bits


def _reduce_jax(array: Any) -> Any:
    import numpy as np

    if not array.is_fully_addressable or len(array.sharding.device_set) != 1:
        return array.__reduce__()
    host = np.asarray(array)  # waits for the value; a view on a CPU, a copy on other devices
    if not host.flags.c_contiguous or (host.dtype.kind not in "biufc" and not small_float(host.dtype)):
        return array.__reduce__()
    return rebuild_jax, (_carry(host), bool(array.aval.weak_type))


def rebuild_jax(carried: Any, weak_type: bool) -> Any:
    if _core._delivering():
        return carried  # the receiver wants another framework's array, and may not have JAX
    import jax

    from forklift.adapters.frameworks import to_numpy

    # JAX's own unpickling calls device_put, too. On a CPU it uses aligned memory in place and keeps it alive.
    array = jax.device_put(to_numpy(carried))
    if weak_type:
        array.aval = array.aval.update(weak_type=True)
    return array


# --- any other


_CUDA = 2  # as DLPack numbers device types


def _reduce_producer(array: Any) -> Any:
    if isinstance(array, _core.Tensor):
        return array.__reduce_ex__(5)
    if _is_on_gpu(array):
        # The receiver gets the same memory.
        try:
            tensor = _core.Tensor.from_dlpack(array)
        except NotFoundError as error:  # no driver here: a stand-in for CUDA, or a wrong claim
            raise TypeError(
                f"cannot send an array of {type(array).__name__}: its memory is on DLPack device type "
                f"{_CUDA}: copy it to the CPU before it is sent ({error})"
            ) from error
        return rebuild_produced, (tensor, _package_of(array))
    try:
        return array.__reduce_ex__(5)
    except TypeError as error:
        try:
            device = array.__dlpack_device__()
        except Exception:
            raise error from None
        if device[0] not in (1, 3):
            raise TypeError(
                f"{error}; and its memory is on DLPack device type {int(device[0])}: copy it to the CPU "
                "before it is sent"
            ) from None
        tensor, name = _core._import_any(array)
        tensor = _core._view(tensor, tensor.dtype)
        return rebuild_produced, (
            Carried(tensor, name) if name != tensor.dtype else tensor,
            _package_of(array),
        )


def _is_on_gpu(array: Any) -> bool:
    try:
        return bool(array.__dlpack_device__()[0] == _CUDA)
    except Exception:
        return False


def _package_of(array: Any) -> str:
    return type(array).__module__.partition(".")[0]


def rebuild_produced(carried: Any, package: str) -> Any:
    if _core._delivering() or not isinstance(carried, _core.Tensor):
        return carried
    from_dlpack = _importer(package)
    return carried if from_dlpack is None else from_dlpack(carried)


def _importer(package: str) -> Any:
    """The package's from_dlpack function; None if it has none or cannot be imported."""
    if package not in sys.modules:
        try:
            importlib.import_module(package)
        except ImportError:
            return None
    for module in (package, f"{package}.dlpack", f"{package}.utils.dlpack"):
        found = getattr(sys.modules.get(module), "from_dlpack", None)
        if callable(found):
            return found
    return None

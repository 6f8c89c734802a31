"""Converts received arrays to arrays of the framework that the receiver asks for.

    convert = deliver("torch")      # ImportError if there is no torch, ValueError for an unknown name
    convert({"x": array, "y": [tensor]})

Arrays are found in lists, tuples, named tuples and dicts, nested in any way. Other objects, and NumPy's
scalars, stay as they are. The framework uses the memory without a copy, unless it does not support the
array's strides or cannot protect read-only memory from writes (torch). Shared memory stays shared: a
`forklift.Tensor` becomes an array over memory that other processes see, too.

If one array cannot be converted, none is: the `ConversionError` has the object as it was received.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

from forklift import _core
from forklift.adapters.carried import Carried, bits_of, ml_dtype, small_float
from forklift.errors import ConversionError

__all__ = ["FRAMEWORKS", "check", "deliver", "to_numpy"]

_Convert = Callable[[Any], Any]

# Element types that torch and JAX share with ml_dtypes, by name.
_SMALL_FLOATS = {
    "bfloat16",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
}


class _Unknown(TypeError):
    """The framework does not have this element type. Arguments: the type's name and a remedy."""


def _numpy() -> Any:
    return sys.modules.get("numpy")


def _dtype_name(array: Any) -> str:
    return str(getattr(array, "dtype", type(array).__name__)).removeprefix("torch.")


# --- to NumPy


def to_numpy(leaf: Any) -> Any:
    import numpy as np

    if isinstance(leaf, np.ndarray):
        return leaf
    if isinstance(leaf, Carried):
        return _numpy_of_bits(leaf.bits, leaf.dtype)
    if isinstance(leaf, _core.Tensor):
        if leaf.dtype == "bfloat16":
            return _numpy_of_bits(_core._view(leaf, "uint16"), leaf.dtype)
        return leaf.numpy()
    if _is_torch(leaf):
        return _numpy_of_torch(leaf)
    if _is_jax(leaf):
        return np.asarray(leaf)
    return _core.Tensor.from_dlpack(leaf).numpy()


def _numpy_of_bits(bits: Any, name: str) -> Any:
    import numpy as np

    kind = ml_dtype(name)
    if kind is None:
        raise _Unknown(name, "install ml_dtypes, or take it as 'torch' or as it comes")
    return np.asarray(bits).view(kind)


def _numpy_of_torch(leaf: Any) -> Any:
    import torch

    plain = leaf.detach().resolve_conj().resolve_neg()
    name = _dtype_name(plain)
    if name in _SMALL_FLOATS:
        return _numpy_of_bits(plain.view(torch.int16 if name == "bfloat16" else torch.uint8).numpy(), name)
    return plain.numpy()


def _is_torch(leaf: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(leaf, torch.Tensor)


def _is_jax(leaf: Any) -> bool:
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(leaf, jax.Array)


# --- to forklift.Tensor


def _to_forklift(leaf: Any) -> Any:
    if isinstance(leaf, _core.Tensor):
        return leaf
    numpy = _numpy()
    if numpy is not None and isinstance(leaf, numpy.ndarray):
        if small_float(leaf.dtype):
            return _tensor_of_bits(bits_of(leaf), leaf.dtype.name)
        _check_numbers(leaf)
        return _core.Tensor.from_numpy(_native(leaf))
    if isinstance(leaf, Carried):
        return _tensor_of_bits(leaf.bits, leaf.dtype)
    if _is_torch(leaf):
        leaf = leaf.detach().resolve_conj().resolve_neg()
    tensor, name = _core._import_any(leaf)
    if name != tensor.dtype:
        raise _Unknown(name, "take it as it comes, or as the framework that it is of")
    return tensor


def _tensor_of_bits(bits: Any, name: str) -> Any:
    if name != "bfloat16":
        raise _Unknown(name, "take it as it comes")
    tensor = bits if isinstance(bits, _core.Tensor) else _core.Tensor.from_numpy(bits)
    return _core._view(tensor, name)


# --- to torch


def _to_torch(leaf: Any) -> Any:
    import torch

    if isinstance(leaf, torch.Tensor):
        return leaf
    numpy = _numpy()
    if numpy is not None and isinstance(leaf, numpy.ndarray):
        if small_float(leaf.dtype):
            return _torch_of_bits(bits_of(leaf), leaf.dtype.name)
        _check_numbers(leaf)
        return _torch_of_array(_native(leaf))
    if isinstance(leaf, Carried):
        return _torch_of_bits(leaf.bits, leaf.dtype)
    return _torch_of_tensor(_to_forklift(leaf))


def _torch_of_array(array: Any) -> Any:
    import torch

    # torch has neither read-only tensors nor strides below zero.
    if not array.flags.writeable or any(step < 0 for step in array.strides):
        array = array.copy()
    try:
        return torch.from_numpy(array)
    except TypeError:
        raise _Unknown(_dtype_name(array), "take it as 'numpy'") from None


def _torch_of_tensor(tensor: Any) -> Any:
    import torch

    if tensor.readonly or any(step < 0 for step in tensor.strides):
        tensor = tensor.clone()
        tensor = _core._view(tensor, tensor.dtype)
    return torch.from_dlpack(tensor)


def _torch_of_bits(bits: Any, name: str) -> Any:
    import torch

    kind = getattr(torch, name, None) if name in _SMALL_FLOATS else None
    if kind is None:
        raise _Unknown(name, "take it as it comes or as 'numpy'")
    return _to_torch(bits).view(kind)


# --- to JAX


def _to_jax(leaf: Any) -> Any:
    import jax

    if isinstance(leaf, jax.Array):
        return leaf
    array = to_numpy(leaf)
    name = _dtype_name(array)
    if small_float(array.dtype):
        if not hasattr(jax.numpy, name):
            raise _Unknown(name, "take it as it comes or as 'numpy'")
    else:
        _check_numbers(array)
        array = _native(array)
        if jax.dtypes.canonicalize_dtype(array.dtype) != array.dtype:
            raise _Unknown(name, "set jax_enable_x64 first, or take it as 'numpy'")
    return jax.device_put(array)  # on a CPU it uses aligned memory as it is


# --- to CuPy


def _to_cupy(leaf: Any) -> Any:
    import cupy

    if isinstance(leaf, cupy.ndarray):
        return leaf
    array = to_numpy(leaf)
    if array.dtype.kind not in "biufc" or small_float(array.dtype):
        raise _Unknown(_dtype_name(array), "take it as 'numpy'")
    return cupy.asarray(array)


# --- any


def _native(array: Any) -> Any:
    """The array in the machine's byte order, copied if it has the other one."""
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _check_numbers(array: Any) -> None:
    if array.dtype.kind not in "biufc":
        raise _Unknown(_dtype_name(array), "take it as 'numpy'")
    if type(array).__name__ == "MaskedArray":
        raise _Unknown("masked arrays", "take it as 'numpy'")


FRAMEWORKS: dict[str, tuple[str, str, _Convert]] = {
    "numpy": ("NumPy", "numpy", to_numpy),
    "torch": ("PyTorch", "torch", _to_torch),
    "jax": ("JAX", "jax", _to_jax),
    "cupy": ("CuPy", "cupy", _to_cupy),
    "forklift": ("Forklift", "forklift", _to_forklift),
}


def check(name: Any) -> str | None:
    """Check a framework's name, or None, as given to as_= or framework=. ValueError for unknown names."""
    if name is None:
        return None
    if name not in FRAMEWORKS:
        raise ValueError(f"unknown framework {name!r}: {', '.join(map(repr, FRAMEWORKS))} are known")
    return sys.intern(str(name))


def deliver(name: str) -> _Convert:
    """The function that converts all arrays in a received object to arrays of this framework."""
    check(name)
    title, module, convert = FRAMEWORKS[name]
    if module not in sys.modules:
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise ImportError(
                f"arrays were asked for as {name!r}, but {title} cannot be imported here ({error}); "
                "nothing was taken from the queue",
                name=module,
            ) from error
    return lambda received: _convert_all(received, convert, title, name)


def _is_array(leaf: Any) -> bool:
    kind = type(leaf)
    if kind is _core.Tensor or kind is Carried:
        return True
    numpy = _numpy()
    if numpy is not None and isinstance(leaf, numpy.generic):
        return False
    return hasattr(kind, "__dlpack__")


def _is_container(node: Any) -> bool:
    # Of tuples only plain and named ones: there is no general way to make instances of other subclasses.
    if isinstance(node, tuple):
        return type(node) is tuple or hasattr(type(node), "_make")
    return isinstance(node, (list, dict))


def _convert_all(received: Any, convert: _Convert, title: str, name: str) -> Any:
    # Convert all arrays first, then put them in place: a failure leaves the object as it was received.
    made: dict[int, Any] = {}
    seen: set[int] = set()
    waiting = [received]
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        if _is_array(node):
            seen.add(id(node))
            try:
                made[id(node)] = convert(node)
            except (TypeError, ValueError, BufferError, RuntimeError) as error:
                raise _failure(error, node, received, title, name) from error
        elif _is_container(node):
            seen.add(id(node))
            waiting.extend(node.values() if isinstance(node, dict) else node)
    return _replace(received, made, {}) if made else received


def _failure(error: Exception, leaf: Any, received: Any, title: str, name: str) -> ConversionError:
    if isinstance(error, _Unknown):
        kind, remedy = error.args
        text = f"{title} has no {kind}, in which an array of shape {tuple(leaf.shape)} was received: {remedy}"
    else:
        what = f"an array of {_dtype_name(leaf)}, shape {tuple(leaf.shape)}"
        text = f"{what}, cannot become one of {title}'s: {error}"
    text += "; this exception's `received` is the whole object as it came"
    return ConversionError(text, received=received, framework=name)


def _replace(node: Any, made: dict[int, Any], done: dict[int, Any]) -> Any:
    key = id(node)
    if key in made:
        return made[key]
    if key in done or not _is_container(node):
        return done.get(key, node)
    if isinstance(node, list):
        done[key] = node
        node[:] = [_replace(item, made, done) for item in node]
    elif isinstance(node, dict):
        done[key] = node
        for name in node:
            node[name] = _replace(node[name], made, done)
    else:
        items = [_replace(item, made, done) for item in node]
        if any(new is not old for new, old in zip(items, node, strict=True)):
            make: Any = getattr(type(node), "_make", tuple)  # a named tuple's
            node = make(items)
        done[key] = node
    return node

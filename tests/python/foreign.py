"""Arrays of made-up frameworks, and the functions that the children of their tests run."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import forklift
import numpy as np
import targets

STOP = targets.STOP


class Unpicklable:
    """An array as extension modules have them: with ``__dlpack__``, but without pickling."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(f"cannot pickle {type(self).__name__!r} object")

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


class Legacy(Unpicklable):
    """An array whose ``__dlpack__`` is older than DLPack 1.0."""

    def __dlpack__(self, stream: Any = None) -> Any:  # type: ignore[override]
        return self.array.__dlpack__()


class OnDevice(Unpicklable):
    """An array that claims to lie on a device of DLPack's type ``device``."""

    def __init__(self, array: Any, device: int) -> None:
        super().__init__(array)
        self.device = device

    def __dlpack_device__(self) -> tuple[int, int]:
        return (self.device, 0)


class Picklable:
    """An array that its own class pickles."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def from_dlpack(tensor: Any) -> Any:
    """As packages have it: makes arrays of this module."""
    return Unpicklable(np.from_dlpack(tensor))


class Float8(Unpicklable):
    """An array of an element type that Forklift does not have: float8_e4m3fn (DLPack 1.1)."""

    def __dlpack__(self, **_options: Any) -> Any:
        capsule = self.array.view(np.uint8).__dlpack__()
        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        # DLTensor: data, device (8 bytes), ndim (4), then the type's code
        ctypes.c_uint8.from_address(get(capsule, b"dltensor") + 20).value = 10
        return capsule


def take_as(there: Any, back: Any, framework: str | None) -> None:
    """Answer each object with the type, the element type and the elements of its arrays."""
    while True:
        got = there.get(as_=framework)
        if isinstance(got, str) and got == STOP:
            return
        back.put(described(got))


def described(got: Any) -> Any:
    if isinstance(got, dict):
        return {name: described(item) for name, item in got.items()}
    if isinstance(got, (list, tuple)):
        return [described(item) for item in got]
    if hasattr(type(got), "__dlpack__"):
        kind = f"{type(got).__module__.partition('.')[0]}.{type(got).__name__}"
        return kind, str(got.dtype).removeprefix("torch."), np.asarray(got.tolist()).tolist()
    return got


def jax_echo(there: Any, back: Any) -> None:
    """Answer each object with what the receiver sees of it, and with the object itself."""
    import jax

    while True:
        got = there.get()
        if isinstance(got, str) and got == STOP:
            return
        facts = []
        for leaf in jax.tree_util.tree_leaves(got):
            array = isinstance(leaf, jax.Array)
            facts.append((array, str(leaf.dtype), leaf.shape, bool(leaf.aval.weak_type)) if array else leaf)
        address = forklift.stats()["block_bytes"]
        back.put((facts, address, got))


def same(value: Any) -> Any:
    return value


def without_jax(there: Any, back: Any) -> None:
    """Takes JAX's arrays as NumPy's, and never imports JAX."""
    sys.modules["jax"] = None  # type: ignore[assignment]
    first, second = there.get(as_="numpy")
    back.put(([f"{type(a).__module__}.{type(a).__name__}" for a in (first, second)], int(first.sum())))

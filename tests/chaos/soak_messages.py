"""The messages of the soak: made from a random source, and checked where they arrive."""

from __future__ import annotations

import random
import sys
from typing import Any

import forklift
import numpy as np

__all__ = ["Message", "Thing", "check", "make"]

Message = Any


class Thing:
    """Something that only pickle can send."""

    def __init__(self, number: int, array: Any) -> None:
        self.number = number
        self.array = array


def _array(source: random.Random) -> Any:
    size = int(128 * 2 ** (source.random() ** 2 * 10))  # float64: 1 KB to 1 MB, more small ones than large
    array = np.empty(size)
    array[:] = size
    return array


def _tensor(source: random.Random) -> Any:
    size = source.randrange(1, 20_000)
    tensor = forklift.empty([size])
    tensor.fill(size % 1000)
    return tensor


def _torch(source: random.Random) -> Any:
    import torch

    size = source.randrange(1, 20_000)
    return torch.full((size,), float(size % 1000))


# (how often of 100, kind, how it is made)
_KINDS: list[tuple[int, str, Any]] = [
    (38, "int", lambda source: source.getrandbits(40)),
    (12, "str", lambda source: "é" * source.randrange(3000)),
    (16, "dict", lambda source: {"a": [1, 2.5, None], "b": {"c": b"x" * source.randrange(20_000)}}),
    (14, "array", _array),
    (4, "arrays", lambda source: [_array(source), (np.arange(3), "text")]),
    (6, "tensor", _tensor),
    (4, "error", lambda source: ValueError("of a kind", source.randrange(100))),
    (4, "thing", lambda source: Thing(source.randrange(100), _array(source))),
    (2, "torch", _torch),
]
_WEIGHTS = [weight for weight, _, _ in _KINDS]


def make(source: random.Random, shared: bool = True) -> Message:
    """A message; without shared memory in it for who cannot carry that."""
    (_, kind, build) = source.choices(_KINDS, _WEIGHTS)[0]
    if (kind == "torch" and "torch" not in sys.modules) or (kind in ("torch", "tensor") and not shared):
        kind, build = "array", _array
    return kind, build(source)


def _check_array(array: Any) -> bool:
    return bool(array[0] == array.size and array[-1] == array.size)


_CHECKS: dict[str, Any] = {
    "int": lambda value: 0 <= value < 1 << 40,
    "str": lambda value: value == "é" * len(value),
    "dict": lambda value: value["a"] == [1, 2.5, None] and set(value["b"]["c"]) <= {ord("x")},
    "array": _check_array,
    "arrays": lambda value: _check_array(value[0]) and value[1][0].sum() == 3 and value[1][1] == "text",
    "tensor": lambda value: value[0].item() == value[-1].item() == value.size % 1000,
    "error": lambda value: type(value) is ValueError and value.args[0] == "of a kind",
    "thing": lambda value: 0 <= value.number < 100 and _check_array(value.array),
    "torch": lambda value: value[0] == value[-1] == value.numel() % 1000,
}


def check(message: Message) -> None:
    kind, value = message
    if not _CHECKS[kind](value):
        raise ValueError(f"a message of kind {kind} arrived changed")

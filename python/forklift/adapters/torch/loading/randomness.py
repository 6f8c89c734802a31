"""The random states of this process as bytes: of torch (CPU), of ``random``, and NumPy's global one.

    state = pack()
    restore(state)

The bytes are only for processes with the same versions of these three.
"""

from __future__ import annotations

import contextlib
import random
import struct
from array import array
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

__all__ = ["pack", "restore", "set_aside"]

_WORDS = 625  # of Python's generator: its 624 words and its position
# The length of torch's part, then for Python and for NumPy: whether a normal deviate is kept, and which one.
# NumPy's position is negative if its global generator is none that this module knows.
_HEAD = struct.Struct("<q?d?dq")
_MERSENNE = "MT19937"


def pack() -> bytes:
    """The states as they are now."""
    of_torch = torch.get_rng_state().numpy().tobytes()
    _version, words, kept = random.getstate()
    of_numpy: Any = np.random.get_state()
    known = isinstance(of_numpy, tuple) and of_numpy[0] == _MERSENNE
    _name, key, position, has_kept, numpys_kept = of_numpy if known else (None, b"", -1, False, 0.0)
    head = _HEAD.pack(len(of_torch), kept is not None, kept or 0.0, bool(has_kept), numpys_kept, position)
    return b"".join((head, of_torch, array("I", words).tobytes(), bytes(key)))


def restore(state: bytes) -> None:
    """Put all three generators into the states that pack() has seen."""
    length, has_kept, kept, numpy_has_kept, numpys_kept, position = _HEAD.unpack_from(state)
    words_at = _HEAD.size + length
    key_at = words_at + 4 * _WORDS
    torch.set_rng_state(torch.frombuffer(bytearray(state[_HEAD.size : words_at]), dtype=torch.uint8))
    words = array("I", state[words_at:key_at])
    random.setstate((3, tuple(words), kept if has_kept else None))
    if position >= 0:
        key = np.frombuffer(state[key_at:], dtype=np.uint32)
        np.random.set_state((_MERSENNE, key, position, int(numpy_has_kept), numpys_kept))


@contextlib.contextmanager
def set_aside(state: bytes) -> Iterator[None]:
    """Run the ``with`` block in these states, and then go on with those of now."""
    now = pack()
    restore(state)
    try:
        yield
    finally:
        restore(now)

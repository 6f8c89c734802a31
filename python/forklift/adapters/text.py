"""Prints tensors as NumPy does; without NumPy as nested lists of all elements."""

from __future__ import annotations

from typing import Any

__all__ = ["description", "text"]


def _values(tensor: Any) -> Any:
    import numpy as np

    if tensor.dtype != "bfloat16":
        return tensor.numpy()
    from forklift import _core

    bits = _core._view(tensor, "uint16").numpy()
    return (bits.astype(np.uint32) << 16).view(np.float32)


def text(tensor: Any) -> str:
    """The elements as NumPy prints them; without NumPy as nested lists."""
    try:
        return str(_values(tensor))
    except ImportError:
        return str(tensor.tolist())


def description(tensor: Any, head: str) -> str:
    """The text for an interactive session: the elements and `head`; without NumPy only `head`."""
    prefix = "forklift.Tensor("
    try:
        import numpy as np
    except ImportError:
        return f"{prefix}{head})"
    values = np.array2string(np.asarray(_values(tensor)), prefix=prefix, separator=", ")
    return f"{prefix}{values}, {head})"

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


def description(tensor: Any) -> str:
    """The text for an interactive session: shape, dtype and elements, these without NumPy as nested lists.

    The form is MindSpore's: ``Tensor(shape=[2], dtype=Float32, value= [1. , 2.5])``.
    """
    dtype = tensor.dtype
    name = {"uint": "UInt", "bfloat": "BFloat"}.get(dtype.rstrip("0123456789"), dtype[:1].upper())
    head = f"Tensor(shape={list(tensor.shape)}, dtype={name}{dtype[len(name) :]}, value="
    try:
        import numpy as np
    except ImportError:
        return f"{head} {tensor.tolist()})"
    values = np.asarray(_values(tensor))
    if values.ndim == 0:
        # Six digits, as C's %g writes them.
        return f"{head} {values.item():g})" if values.dtype.kind == "f" else f"{head} {values.item()})"
    return f"{head} {np.array2string(values, prefix=head + ' ', separator=', ')})"

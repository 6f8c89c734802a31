"""Page-locked batches: where they lie, in the arena, without a copy.

torch asks CUDA whether memory is page-locked, and memory that Forklift has registered is: ``is_pinned()`` is
true, ``pin_memory()`` returns the tensor itself, and ``to("cuda", non_blocking=True)`` is done by DMA while
the program goes on. A batch's memory is used again only once it is gone and everything is done that was
queued on the GPUs by then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils.data import _utils

from forklift import _core

__all__ = ["collect", "in_place", "pinned"]

_mechanics: Any = _core._torch


def pinned(batch: Any, device: str) -> Any:
    """Pin a batch as torch does. What does not lie in the arena, or cannot be registered, torch copies."""
    if device == "cuda" and torch.version.hip is None:
        in_place(batch, torch.cuda.current_device())
    return _utils.pin_memory.pin_memory(batch, device)


def in_place(data: Any, ordinal: int) -> int:
    """Register the memory of a batch's tensors with the GPU's driver. How many tensors are pinned now."""
    if isinstance(data, torch.Tensor):
        if data.layout != torch.strided or data.device.type != "cpu" or data.numel() == 0:
            return 0
        storage = data.untyped_storage()
        return int(_mechanics.pin(storage._cdata, storage.data_ptr(), ordinal))
    if hasattr(data, "pin_memory") or isinstance(data, (str, bytes)):
        return 0  # an object that pins itself
    if isinstance(data, Mapping):
        return sum(in_place(each, ordinal) for each in data.values())
    if isinstance(data, Sequence):
        return sum(in_place(each, ordinal) for each in data)
    return 0


def collect() -> int:
    """Give back the memory of all batches that are gone, for which it waits for the GPUs. How many blocks."""
    return int(_mechanics.collect_pinned(True))

"""torch's CUDA memory from Forklift's pools: see ``use_arena``."""

from __future__ import annotations

from typing import Any

import torch

from forklift import _core

__all__ = ["use_arena"]

_current: list[Any] = []  # torch keeps no reference to the allocator's object


def use_arena() -> None:
    """Have torch allocate CUDA memory from Forklift, for the rest of this process.

    A CUDA tensor is then sent as a piece of one of Forklift's memory pools: its receivers keep it when this
    process ends, and no memory of torch's allocator is kept alive for others. Call it before anything else of
    ``torch.cuda``::

        import torch
        from forklift.adapters.torch import use_arena

        use_arena()
        weights = torch.zeros(1000, device="cuda")

    Each allocation of torch's then is one of Forklift's, which takes some microseconds; torch's own cache and
    what belongs to it (``torch.cuda.memory_stats``, ``empty_cache``, CUDA graphs) are not used. A second call
    does nothing.

    RuntimeError: torch is built without CUDA, or has initialised CUDA already.
    """
    if _current:
        return
    if torch.version.cuda is None:
        raise RuntimeError("use_arena(): this torch is built without CUDA")
    if torch.cuda.is_initialized():
        raise RuntimeError(
            "use_arena() has to be called before torch initialises CUDA, since memory that torch has "
            "allocated by then stays with the other allocator: call it right after importing torch"
        )
    allocator = torch.cuda.memory.CUDAPluggableAllocator(
        str(_core.__file__), "forklift_cuda_alloc", "forklift_cuda_free"
    )
    torch.cuda.memory.change_current_allocator(allocator)
    _current.append(allocator)

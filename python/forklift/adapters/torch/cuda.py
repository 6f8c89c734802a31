"""torch's CUDA tensors: the same device memory in every process, without ``torch.multiprocessing``'s rules.

A storage travels whole, as a `forklift.Tensor` over its memory: by the legacy handle of the allocation that
it lies in, by a descriptor where torch's allocator has one (expandable segments), or within Forklift's own
device memory. The sender keeps a storage until no process holds it, so nobody has to wait, release early or
call ``torch.cuda.ipc_collect``. What was queued on the sender's current stream is done when the message is
sent.
"""

from __future__ import annotations

from typing import Any

import torch

from forklift import _core

__all__ = ["rebuild_storage", "rebuild_tensor", "reduce_storage", "reduce_tensor"]


def reduce_storage(storage: Any) -> Any:
    """Reduce a CUDA storage. None: one without bytes, which torch's own reduction sends."""
    if storage.nbytes() == 0:
        return None
    with torch.cuda.device(storage.device):
        elements = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
        return rebuild_storage, (_core.Tensor.from_dlpack(elements),)


def rebuild_storage(shared: Any) -> Any:
    return torch.from_dlpack(shared).untyped_storage()


def reduce_tensor(tensor: Any) -> Any:
    """Reduce a strided CUDA tensor. None: torch's own reduction is to do it, or to say why it cannot."""
    if tensor.requires_grad and not tensor.is_leaf:
        return None
    storage = tensor.untyped_storage()
    if storage.nbytes() == 0:
        return None
    return rebuild_tensor, (
        storage,  # of several tensors over one storage the pickler sends it once
        tensor.dtype,
        tensor.storage_offset(),
        tuple(tensor.size()),
        tensor.stride(),
        tensor.requires_grad,
        isinstance(tensor, torch.nn.Parameter),
    )


def rebuild_tensor(
    storage: Any,
    dtype: Any,
    offset: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    requires_grad: bool,
    is_parameter: bool,
) -> Any:
    made = torch.empty(0, dtype=dtype, device=storage.device).set_(storage, offset, shape, strides)
    if is_parameter:
        return torch.nn.Parameter(made, requires_grad)
    return made.requires_grad_() if requires_grad else made

"""torch's CUDA tensors: the same device memory in every process, without ``torch.multiprocessing``'s rules.

A storage travels whole, as a `forklift.Tensor` over its memory: by the legacy handle of the allocation that
it lies in, by a descriptor where torch's allocator has one (expandable segments), or within Forklift's own
device memory. Plain tensors go through the native codec; the functions here are for others, for storages by
themselves, and for the arguments of processes. The sender keeps a storage until no process holds it, so
nobody has to wait, release early or call ``torch.cuda.ipc_collect``. What was queued on the sender's current
stream is done when the message is sent.
"""

from __future__ import annotations

from typing import Any

import torch

from forklift import _core

__all__ = ["plain_keys", "prepare", "rebuild_storage", "rebuild_tensor", "reduce_storage", "reduce_tensor"]


def plain_keys(of_the_cpu: tuple[int, int]) -> tuple[int, int]:
    """Say which dispatch keys a plain tensor on a GPU has, outside and inside of inference mode.

    They are put together as those of a plain tensor on the CPU are, which are known: (0, 0) where that does
    not give these.
    """
    key, keys = torch._C.DispatchKey, torch._C.DispatchKeySet

    def composed(backend: str) -> tuple[int, int]:
        inference = (
            keys(getattr(key, backend)).raw_repr() | keys(getattr(key, f"Autocast{backend}")).raw_repr()
        )
        autograd = keys(getattr(key, f"Autograd{backend}")).raw_repr() | keys(key.ADInplaceOrView).raw_repr()
        return inference | autograd, inference

    try:
        return composed("CUDA") if composed("CPU") == of_the_cpu else (0, 0)
    except (AttributeError, TypeError):
        return 0, 0


def prepare() -> None:
    """Initialise CUDA in torch, which does not do that for memory that others hand to it."""
    torch.cuda.init()


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

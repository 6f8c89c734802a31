"""torch's CPU tensors: shared memory, as from ``torch.multiprocessing``, without a descriptor for each one.

The core imports this module when it first meets torch: when the program has imported torch and sends an
object that may be a tensor, or when a tensor is received. Then:

- ``_probe`` finds out where torch keeps the parts of a storage, and ``_self_test`` moves one to check that;
- the reducers of ``torch.multiprocessing.reductions`` are replaced in Forklift's picklers. Reducers that the
  program has registered itself still precede them, and anything but plain CPU memory goes on to torch's;
- torch's own sharing functions learn of Forklift's memory (`sharing`).

When a storage is sent for the first time, it moves into shared memory, for all tensors over it. If the probe
does not find the layout of this torch's storages, ``_move_without_probe`` uses torch's own interface only.
``FORKLIFT_TORCH_PROBE=0`` forces that, for tests and for emergencies.
"""

from __future__ import annotations

import copyreg
import os
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
import torch.multiprocessing
from torch.multiprocessing import reductions as _theirs

from forklift import _core, reducers
from forklift.adapters.torch import sharing
from forklift.adapters.torch.sharing import is_held, is_shared_by_torch

__all__ = ["install", "rebuild"]

_mechanics: Any = _core._torch
_registered: dict[type, Any] = ForkingPickler._extra_reducers  # type: ignore[attr-defined]
_DTYPES = {
    (6, 8): "bool",
    (0, 8): "int8",
    (0, 16): "int16",
    (0, 32): "int32",
    (0, 64): "int64",
    (1, 8): "uint8",
    (1, 16): "uint16",
    (1, 32): "uint32",
    (1, 64): "uint64",
    (2, 16): "float16",
    (2, 32): "float32",
    (2, 64): "float64",
    (4, 16): "bfloat16",
    (5, 32): "complex32",
    (5, 64): "complex64",
    (5, 128): "complex128",
    (10, 8): "float8_e4m3fn",
    (11, 8): "float8_e4m3fnuz",
    (12, 8): "float8_e5m2",
    (13, 8): "float8_e5m2fnuz",
    (14, 8): "float8_e8m0fnu",
}
_installed = False


def install() -> None:
    """Probe this torch and replace its reducers. Done once."""
    global _installed
    if _installed:
        return
    if os.environ.get("FORKLIFT_TORCH_PROBE") != "0" and _probe() and not _self_test():
        _mechanics.forget()
    _mechanics.install(
        torch.Tensor,
        torch.nn.Parameter,
        torch._C._from_dlpack,
        getattr(torch.Tensor, "__dlpack_c_exchange_api__", None),
        torch._C._len_torch_function_stack,
        rebuild,
        ((_registered, _theirs.reduce_tensor), (copyreg.dispatch_table, None)),
    )
    if _mechanics.known():
        sharing.install()
    reducers.prefer(_reducers())
    _installed = True


# --- the probe


def _probe() -> bool:
    try:
        owned = [torch.UntypedStorage(size) for size in (72, 1_000, 4_104)]
        keep = [bytearray(size) for size in (88, 1_016, 5_008)]
        foreign = [torch.frombuffer(memory, dtype=torch.uint8).untyped_storage() for memory in keep]
        plain = torch.zeros(7)
        with torch.inference_mode():
            inference = torch.zeros(7)
        complex_ones = torch.zeros(6, dtype=torch.complex64)
        tensors = [plain, torch.zeros(3, 4), complex_ones, inference, torch.zeros(5, requires_grad=True)]
        with torch.no_grad():
            tensors += [torch.conj(torch.zeros(2, dtype=torch.complex64)), torch.zeros(9)[2:]]
        keys = [torch._C._dispatch_keys(t).raw_repr() for t in tensors]
        return bool(
            _mechanics.learn(
                [(s._cdata, s.data_ptr(), s.nbytes()) for s in owned],
                [(s._cdata, s.data_ptr(), s.nbytes()) for s in foreign],
                [
                    (id(t), t._cdata, t.untyped_storage()._cdata, key, t.requires_grad or t._is_view())
                    for t, key in zip(tensors, keys, strict=True)
                ],
                [keys[0], keys[3]],
            )
        )
    except (AttributeError, RuntimeError, TypeError):
        return False  # this torch lacks one of these names


def _self_test() -> bool:
    """Move a storage, and tell whether it then behaves. The probe has confirmed the layout by now."""
    tensor = torch.arange(300, dtype=torch.int64)
    storage, view = tensor.untyped_storage(), tensor[7:9]
    before = storage.data_ptr()
    if not _mechanics.private(storage._cdata) or not _mechanics.move(storage._cdata):
        return False
    moved = storage.data_ptr() != before and view.data_ptr() == storage.data_ptr() + 56
    return moved and storage.nbytes() == 2_400 and view.tolist() == [7, 8] and not storage.resizable()


# --- sending


def _reduce_storage(storage: Any) -> Any:
    if storage.device.type == "cpu" and storage.nbytes() != 0 and not is_shared_by_torch(storage):
        payload = _mechanics.place_storage(storage, storage._cdata, storage.data_ptr(), storage.nbytes())
        if payload is not None:
            return _take_storage, (payload,)
    return _theirs.reduce_storage(storage)


def _reduce_tensor(tensor: Any) -> Any:
    if _sends_natively(tensor):
        payload = _mechanics.place_tensor(tensor)
        if payload is not None:
            return _take_tensor, (payload,)
        _move_without_probe(tensor)
    return _theirs.reduce_tensor(tensor)


def _sends_natively(tensor: Any) -> bool:
    return bool(tensor.layout == torch.strided and tensor.device.type == "cpu" and not tensor.is_nested)


def _move_without_probe(tensor: Any) -> None:
    """Put the tensor over a copy of its storage in Forklift's memory, if nothing else uses the storage.

    Only if the layout of storages is unknown. A tensor that this leaves alone is moved by torch's own
    functions, into memory with a descriptor.
    """
    if _mechanics.known() or (tensor.requires_grad and not tensor.is_leaf):
        return
    storage = tensor.untyped_storage()
    if storage.nbytes() == 0 or is_held(storage) or is_shared_by_torch(storage):
        return
    if torch._C._storage_Use_Count(storage._cdata) > 2:  # the tensor, and `storage` here
        return
    copy = _mechanics.copy(storage.data_ptr(), storage.nbytes()).untyped_storage()
    view = torch.empty(0, dtype=tensor.dtype).set_(
        copy, tensor.storage_offset(), tensor.size(), tensor.stride()
    )
    with torch.no_grad():
        tensor.data = view


def rebuild(
    base: Any, code: int, bits: int, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]
) -> Any:
    """A tensor over the storage of `base`; an empty one if that is None.

    `code` and `bits` are DLPack's element type; `offset` and `strides` count elements. TypeError if this
    torch has no such type.
    """
    dtype = getattr(torch, _DTYPES.get((code, bits), ""), None)
    if dtype is None:
        raise TypeError(f"torch {torch.__version__} has no elements of {bits} bits and DLPack's type {code}")
    storage = torch.UntypedStorage(0) if base is None else base.untyped_storage()
    with torch._C.DisableTorchFunction():
        return torch.empty(0, dtype=dtype, device="cpu").set_(storage, offset, shape, strides)


# --- receiving: the functions that pickles name


def _take_tensor(payload: bytes) -> Any:
    return _mechanics.take_tensor(payload)


def _take_storage(payload: bytes) -> Any:
    return _mechanics.take_storage(payload)


def _reducers() -> dict[type, tuple[Any, Callable[[Any], Any]]]:
    """For each class: torch's own reducer, and Forklift's, which replaces it while it is registered."""
    return {
        torch.UntypedStorage: (_registered.get(torch.UntypedStorage), _reduce_storage),
        torch.Tensor: (_theirs.reduce_tensor, _reduce_tensor),
        torch.nn.Parameter: (_theirs.reduce_tensor, _reduce_tensor),
    }

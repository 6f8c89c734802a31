"""torch's default collate function, with the batch allocated in the arena.

torch's own, in a worker, asks for shared memory too, which is the arena's once Forklift has met torch. The
functions here get there with fewer steps, and spare samples that are NumPy arrays the way through a tensor
for each of them. Whatever is not a plain batch of equal samples goes to torch's function, which knows what
to do or to say.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch.utils.data._utils import collate as _theirs

from forklift import _core
from forklift.errors import ForkliftError

__all__ = ["collate", "size_of"]

_mechanics: Any = _core._torch
_torchs_tensors: Any = _theirs.collate_tensor_fn
_torchs_arrays: Any = _theirs.collate_numpy_array_fn
_DTYPES: dict[Any, Any] = {
    np.dtype(name): getattr(torch, name)
    for name in (
        *("bool", "uint8", "int8", "int16", "int32", "int64"),
        *("float16", "float32", "float64", "complex64", "complex128"),
    )
}
_ITEM_SIZES: dict[Any, int] = {dtype: array.itemsize for array, dtype in _DTYPES.items()}
_ITEM_SIZES[torch.bfloat16] = 2
_MUCH = 8 << 20


def collate(batch: Any) -> Any:
    """torch.utils.data.default_collate, as it is at this moment: a program may have extended its table."""
    return _theirs.collate(batch, collate_fn_map=_table())


def _table() -> dict[Any, Any]:
    return {kind: _ours.get(function, function) for kind, function in _theirs.default_collate_fn_map.items()}


def _empty(shape: tuple[int, ...], dtype: Any) -> Any:
    """A tensor in the arena, or None if there is no memory for it (then torch's shared memory is tried)."""
    size = math.prod(shape) * _ITEM_SIZES[dtype]
    if size == 0:
        return None
    try:
        return _mechanics.empty(size).view(dtype).view(shape)
    except ForkliftError:
        return None


def _tensors(batch: Any, *, collate_fn_map: Any = None) -> Any:
    first = batch[0]
    plain = type(first) is torch.Tensor and first.layout is torch.strided and not first.is_nested
    if plain and first.dtype in _ITEM_SIZES and first.device.type == "cpu":
        out = _empty((len(batch), *first.shape), first.dtype)
        if out is not None and _is_much(out, first) and all(_is_dense(each, first) for each in batch):
            _mechanics.gather(out.data_ptr(), [each.data_ptr() for each in batch], first.nbytes)
            return out
        if out is not None:
            return torch.stack(batch, 0, out=out)
    return _torchs_tensors(batch, collate_fn_map=collate_fn_map)


def _is_much(out: Any, piece: Any) -> bool:
    """Whether a batch would push all else out of the caches, and is of few pieces (decisions/0168)."""
    return bool(out.nbytes >= _MUCH and piece.nbytes >= _MUCH // 128)


def _is_dense(each: Any, first: Any) -> bool:
    """Whether the sample's elements are its memory, one after another, like the first one's."""
    alike = type(each) is torch.Tensor and each.dtype == first.dtype and each.shape == first.shape
    if not alike or each.layout is not torch.strided or each.device.type != "cpu" or each.is_nested:
        return False
    return not (each.requires_grad or each.is_conj() or each.is_neg()) and bool(each.is_contiguous())


def _arrays(batch: Any, *, collate_fn_map: Any = None) -> Any:
    dtype, shape = batch[0].dtype, batch[0].shape
    known = _DTYPES.get(dtype) if shape else None
    if known is not None and all(_is_plain(each, dtype, shape) for each in batch):
        out = _empty((len(batch), *shape), known)
        if out is not None:
            if _is_much(out, batch[0]) and all(each.flags.c_contiguous for each in batch):
                _mechanics.gather(out.data_ptr(), [each.ctypes.data for each in batch], batch[0].nbytes)
                return out
            np.concatenate(batch, out=out.numpy().reshape(len(batch) * shape[0], *shape[1:]))
            return out
    return _torchs_arrays(batch, collate_fn_map=collate_fn_map)


def _is_plain(array: Any, dtype: Any, shape: tuple[int, ...]) -> bool:
    """Whether torch takes the array, and in a batch of arrays like it would copy it as it is."""
    plain = type(array) is np.ndarray and array.shape == shape and array.dtype == dtype
    return plain and min(array.strides) >= 0


_ours: dict[Any, Any] = {_torchs_tensors: _tensors, _torchs_arrays: _arrays}


def size_of(batch: Any) -> tuple[int, int]:
    """The bytes of a batch's tensors and arrays, and how many of them have still to be copied."""
    kind = type(batch)
    if kind is torch.Tensor or isinstance(batch, torch.Tensor):
        if batch.layout is not torch.strided or batch.is_nested or batch.device.type != "cpu":
            return 0, 0
        size = batch.nbytes
        storage = batch.untyped_storage()
        held = size == 0 or _mechanics.held(storage._cdata, storage.data_ptr())
        return size, 0 if held else size
    if kind is list or kind is tuple or isinstance(batch, (list, tuple)):
        sizes = [size_of(each) for each in batch]
    elif kind is dict or isinstance(batch, dict):
        sizes = [size_of(each) for each in batch.values()]
    elif isinstance(batch, (np.ndarray, bytes, bytearray)):
        size = batch.nbytes if isinstance(batch, np.ndarray) else len(batch)
        return size, size
    else:
        return 0, 0
    return sum(size for size, _ in sizes), sum(copied for _, copied in sizes)

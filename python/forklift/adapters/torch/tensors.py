"""torch's tensors: shared memory, as from ``torch.multiprocessing``, without a descriptor for each one.

The core imports this module when it first meets torch: when the program has imported torch and sends an
object that may be a tensor, or when a tensor is received. Then:

- ``_probe`` finds out where torch keeps the parts of a storage, and ``_self_test`` moves one to check that;
- the reducers of ``torch.multiprocessing.reductions`` are replaced in Forklift's picklers. Reducers that the
  program has registered itself still precede them, and anything but plain memory goes on to torch's;
- torch's own sharing functions learn of Forklift's memory (`sharing`);
- CUDA tensors share their device memory (`cuda`).

When a storage is sent for the first time, it moves into shared memory, for all tensors over it. If the probe
does not find the layout of this torch's storages, ``_move_without_probe`` uses torch's own interface only.
``FORKLIFT_TORCH_PROBE=0`` forces that, for tests and for emergencies.
"""

from __future__ import annotations

import _thread
import copyreg
import os
import warnings
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
import torch.multiprocessing
from torch.multiprocessing import reductions as _theirs
from torch.utils._python_dispatch import _disable_current_modes

from forklift import _core, reducers
from forklift.adapters.torch import cuda, sharing
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
    _in_plain_thread(_learn)
    sharing.wrap_tensors()
    _mechanics.install(
        torch.Tensor,
        torch.nn.Parameter,
        torch._C._from_dlpack,
        getattr(torch.Tensor, "__dlpack_c_exchange_api__", None),
        torch._C._len_torch_function_stack,
        rebuild,
        ((_registered, _theirs.reduce_tensor), (copyreg.dispatch_table, None)),
        torch.UntypedStorage._new_with_weak_ptr,
        vars(torch.multiprocessing),
    )
    if _mechanics.known():
        sharing.install()
    reducers.prefer(_reducers())
    _installed = True


# --- the probe


def _in_plain_thread(action: Callable[[], bool]) -> bool:
    """Run `action` where none of the caller's modes, devices and transforms are active: they are per thread.

    Where no thread can be started (while the interpreter shuts down), it runs in the caller's.
    """
    results: list[bool] = []
    failures: list[BaseException] = []
    done = _thread.allocate_lock()
    done.acquire()

    def run() -> None:
        try:
            results.append(action())
        except BaseException as error:
            failures.append(error)
        finally:
            done.release()

    try:
        _thread.start_new_thread(run, ())
    except RuntimeError:
        return action()
    done.acquire()
    if failures:
        raise failures[0]
    return results[0]


def _learn() -> bool:
    return (
        os.environ.get("FORKLIFT_TORCH_PROBE") != "0" and _probe() and (_self_test() or _mechanics.forget())
    )


def _probe() -> bool:
    """Show the core examples of storages and tensors, and what is known of them."""
    try:
        owned = [torch.UntypedStorage(size, device="cpu") for size in (72, 1_000, 4_104)]
        keep = [bytearray(size) for size in (88, 1_016, 5_008)]
        foreign = [torch.frombuffer(memory, dtype=torch.uint8).untyped_storage() for memory in keep]
        tensors = _example_tensors()
        keys = [torch._C._dispatch_keys(t).raw_repr() for t in tensors]
        types = [
            (torch.empty(3, dtype=getattr(torch, name), device="cpu"), code, bits)
            for (code, bits), name in _DTYPES.items()
            for _ in range(2)
            if hasattr(torch, name) and name != "complex32"  # torch warns of it, and sends it itself
        ]
        if not _mechanics.learn(
            [_facts_of_storage(s) for s in owned],
            [_facts_of_storage(s) for s in foreign],
            [_facts_of_tensor(t, key) for t, key in zip(tensors, keys, strict=True)],
            [keys[0], keys[1]],
            [(t._cdata, code, bits) for t, code, bits in types],
        ):
            return False
        _mechanics.learn_cuda_keys(*cuda.plain_keys((keys[0], keys[1])))
        return True
    except (AttributeError, RuntimeError, TypeError):
        return False  # this torch lacks one of these names


def _example_tensors() -> list[Any]:
    """Tensors that differ in everything that is looked for. The first two are plain, inside and outside of
    inference mode."""

    def zeros(*shape: int, dtype: Any = torch.float32, **options: Any) -> Any:
        return torch.zeros(*shape, dtype=dtype, device="cpu", **options)

    with torch.inference_mode():
        inference = zeros(7)
    tensors = [
        zeros(7),
        inference,
        zeros(3, 4),
        zeros(6, dtype=torch.complex64),
        zeros(5, requires_grad=True),
    ]
    with torch.no_grad():
        tensors += [torch.conj(zeros(2, dtype=torch.complex64)), zeros(9)[2:], zeros(31)[13:]]
    for times, tensor in ((3, tensors[0]), (1, tensors[2]), (5, tensors[3])):
        for _ in range(times):
            tensor.zero_()
    return tensors


_UNKNOWN_COUNT = 0xFFFFFFFF


def _facts_of_storage(storage: Any) -> tuple[int, int, int, int]:
    count = getattr(torch._C, "_storage_Use_Count", None)
    references = _UNKNOWN_COUNT if count is None else count(storage._cdata)
    return (storage._cdata, storage.data_ptr(), storage.nbytes(), references)


def _facts_of_tensor(t: Any, keys: int) -> tuple[int, int, int, int, bool, int, int, int]:
    version = -1 if t.is_inference() else t._version
    references = t._use_count() if hasattr(t, "_use_count") else _UNKNOWN_COUNT
    storage = t.untyped_storage()._cdata
    has_autograd = t.requires_grad or t._is_view()
    return (id(t), t._cdata, storage, keys, has_autograd, t.storage_offset(), version, references)


def _self_test() -> bool:
    """Move a storage, and tell whether it then behaves. The probe has confirmed the layout by now."""
    tensor = torch.arange(300, dtype=torch.int64, device="cpu")
    storage, view = tensor.untyped_storage(), tensor[7:9]
    before = storage.data_ptr()
    if not _mechanics.private(storage._cdata) or not _mechanics.move(storage._cdata):
        return False
    moved = storage.data_ptr() != before and view.data_ptr() == storage.data_ptr() + 56
    return moved and storage.nbytes() == 2_400 and view.tolist() == [7, 8] and not storage.resizable()


# --- sending


def _reduce_storage(storage: Any) -> Any:
    if storage.device.type == "cuda":
        reduced = cuda.reduce_storage(storage)
        return _theirs.reduce_storage(storage) if reduced is None else reduced
    if storage.device.type == "cpu" and storage.nbytes() != 0 and not is_shared_by_torch(storage):
        payload = _mechanics.place_storage(storage, storage._cdata, storage.data_ptr(), storage.nbytes())
        if payload is not None:
            return _take_storage, (payload,)
    return _theirs.reduce_storage(storage)


def _reduce_tensor(tensor: Any) -> Any:
    with torch._C.DisableTorchFunction():  # a mode of the program's sees torch's functions, not these
        reduced = _reduce_strided(tensor)
    return _theirs.reduce_tensor(tensor) if reduced is None else reduced


def _reduce_strided(tensor: Any) -> Any:
    """Reduce a tensor in plain memory. None: torch's reduction is to do it."""
    if tensor.layout != torch.strided or tensor.is_nested or tensor.device.type not in ("cpu", "cuda"):
        return None
    payload = _mechanics.place_tensor(tensor)
    if payload is not None:
        return _take_tensor, (payload,)
    if tensor.device.type == "cuda":
        return _reduce_cuda(tensor)
    if tensor.is_conj() or tensor.is_neg():
        return _reduce_lazy(tensor)
    if tensor.is_quantized:  # torch's reduction forgets the quantizer; the class's own does not
        if tensor.requires_grad:
            _theirs.reduce_tensor(tensor)
        return tensor.__reduce_ex__(4)
    return None if _mechanics.known() else _move_without_probe(tensor)


def _reduce_cuda(tensor: Any) -> Any:
    if tensor.is_conj() or tensor.is_neg():
        return _reduce_lazy(tensor)
    return None if tensor.is_quantized else cuda.reduce_tensor(tensor)


def _reduce_lazy(tensor: Any) -> Any:
    """Reduce a tensor whose elements are to be conjugated or negated when they are read.

    torch's own reduction sends the memory and forgets that.
    """
    if tensor.requires_grad:
        _theirs.reduce_tensor(tensor)  # raises unless it is a leaf, and warns of hooks
    conjugate, negative = tensor.is_conj(), tensor.is_neg()
    with torch.no_grad():
        plain = _toggle(tensor.detach(), conjugate, negative)
    return _rebuild_lazy, (plain, conjugate, negative, tensor.requires_grad)


def _toggle(tensor: Any, conjugate: bool, negative: bool) -> Any:
    if conjugate:
        tensor = torch._conj(tensor)
    return torch._neg_view(tensor) if negative else tensor


def _move_without_probe(tensor: Any) -> Any:
    """Put the tensor over a copy of its storage in Forklift's memory, if nothing else uses the storage.

    Only if the layout of storages is unknown. None: a tensor that this leaves alone is moved by torch's own
    functions, into memory with a descriptor.
    """
    if tensor.requires_grad and not tensor.is_leaf:
        return None
    storage = tensor.untyped_storage()
    if storage.nbytes() == 0 or is_held(storage) or is_shared_by_torch(storage):
        return None
    if torch._C._storage_Use_Count(storage._cdata) > 2:  # the tensor, and `storage` here
        return None if storage.resizable() else _reduce_copy(tensor)
    # NumPy's arrays over the old memory (torch forbids to resize it then) keep only the tensor alive, so the
    # new storage keeps the old one.
    keep = None if storage.resizable() else storage
    copy = _mechanics.copy(storage.data_ptr(), storage.nbytes(), keep).untyped_storage()
    view = torch.empty(0, dtype=tensor.dtype).set_(
        copy, tensor.storage_offset(), tensor.size(), tensor.stride()
    )
    with torch.no_grad():
        tensor.data = view
    return None


def _reduce_copy(tensor: Any) -> Any:
    """Reduce a copy of a tensor whose memory NumPy may look at: torch's functions would free it."""
    warnings.warn(
        "a tensor is sent as a copy: NumPy's arrays look at its memory, and storages of this torch stay",
        RuntimeWarning,
        stacklevel=2,
    )
    with torch.no_grad():
        copy = tensor.detach().clone()
    made = torch.nn.Parameter(copy, tensor.requires_grad) if isinstance(tensor, torch.nn.Parameter) else copy
    return _theirs.reduce_tensor(made.requires_grad_(tensor.requires_grad))


def rebuild(
    base: Any, code: int, bits: int, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]
) -> Any:
    """A tensor over a storage, `base` or that of the tensor `base`; an empty one if that is None.

    `code` and `bits` are DLPack's element type; `offset` and `strides` count elements. TypeError if this
    torch has no such type.
    """
    dtype = getattr(torch, _DTYPES.get((code, bits), ""), None)
    if dtype is None:
        raise TypeError(f"torch {torch.__version__} has no elements of {bits} bits and DLPack's type {code}")
    if base is None:
        storage = torch.UntypedStorage(0, device="cpu")
    else:
        storage = base if isinstance(base, torch.UntypedStorage) else base.untyped_storage()
    with torch._C.DisableTorchFunction():
        device = storage.device
        if torch._C._len_torch_dispatch_stack() == 0:
            return torch.empty(0, dtype=dtype, device=device).set_(storage, offset, shape, strides)
        with _disable_current_modes():
            return torch.empty(0, dtype=dtype, device=device).set_(storage, offset, shape, strides)


# --- receiving: the functions that pickles name


def _take_tensor(payload: bytes) -> Any:
    return _mechanics.take_tensor(payload)


def _take_storage(payload: bytes) -> Any:
    return _mechanics.take_storage(payload)


def _rebuild_lazy(plain: Any, conjugate: bool, negative: bool, requires_grad: bool) -> Any:
    with torch.no_grad():
        tensor = _toggle(plain, conjugate, negative).detach()
    return tensor.requires_grad_() if requires_grad else tensor


def _reducers() -> dict[type, tuple[Any, Callable[[Any], Any]]]:
    """For each class: torch's own reducer, and Forklift's, which replaces it while it is registered."""
    return {
        torch.UntypedStorage: (_registered.get(torch.UntypedStorage), _reduce_storage),
        torch.Tensor: (_theirs.reduce_tensor, _reduce_tensor),
        torch.nn.Parameter: (_theirs.reduce_tensor, _reduce_tensor),
    }

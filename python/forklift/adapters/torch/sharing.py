"""Wraps torch's own sharing functions so that they know storages in Forklift's memory.

The wrappers check first whether a storage lies in Forklift's memory, and call torch's own functions if not:

- ``is_shared()`` returns True and ``share_memory_()`` does nothing. ``share_memory_()`` of a storage that is
  not shared yet moves it into Forklift's memory: no descriptor, no name, and it can be sent as a handle.
- When torch pickles such a storage for one of its own queues, the storage travels as a loan: the receiver
  asks the sender for it, as it does for torch's descriptors, and joins the sender's domain if it has none.
  Among the arguments of a process that is being started, the storage travels as a handle without a request;
  so do tensors on a GPU there.
- ``resize_(0)`` gives such a storage up; any other size is refused, since others share the memory.
- With the strategy ``file_system``, ``_share_filename_cpu_`` says the name of the storage's file.
- The memory into which a ``DataLoader``'s workers collate (``_new_using_fd_cpu``) is Forklift's.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from multiprocessing import context as _std_context
from multiprocessing import reduction as _reduction
from multiprocessing import resource_sharer as _resource_sharer
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch.multiprocessing import reductions as _theirs

from forklift import _core
from forklift.adapters.torch import cuda
from forklift.errors import ForkliftError

__all__ = [
    "install",
    "is_held",
    "is_shared_by_torch",
    "move",
    "reduce_storage",
    "reduce_tensor",
    "wrap_tensors",
]

_mechanics: Any = _core._torch
_sharer: Any = _resource_sharer._resource_sharer  # type: ignore[attr-defined]
_registered: dict[type, Any] = ForkingPickler._extra_reducers  # type: ignore[attr-defined]
_torchs_is_shared: Callable[[Any], bool] = torch.UntypedStorage.is_shared
_torchs_reduce: Callable[[Any], Any] = _theirs.reduce_storage
_torchs_reduce_tensor: Callable[[Any], Any] = _theirs.reduce_tensor


def is_held(storage: Any) -> bool:
    """Tells whether a storage lies in Forklift's memory."""
    return bool(storage.device.type == "cpu" and _mechanics.held(storage._cdata, storage.data_ptr()))


def is_shared_by_torch(storage: Any) -> bool:
    """Tells whether a storage lies in torch's own shared memory (or in a mapped file)."""
    return bool(_torchs_is_shared(storage))


def install() -> None:
    """Put the wrappers in place. Called once."""
    storage: Any = torch.UntypedStorage
    storage.is_shared = lambda self: is_held(self) or _torchs_is_shared(self)
    storage.share_memory_ = _share_memory(storage.share_memory_)
    torch.Tensor.share_memory_ = _share_tensor(torch.Tensor.share_memory_)
    storage.resize_ = _resize(storage.resize_)
    storage._share_fd_cpu_ = _leaving(storage._share_fd_cpu_)
    storage._share_filename_cpu_ = _named(_leaving(storage._share_filename_cpu_))
    storage._new_using_fd_cpu = staticmethod(_new_shared(storage._new_using_fd_cpu))
    storage._new_using_filename_cpu = staticmethod(_new_shared(storage._new_using_filename_cpu))
    if _registered.get(torch.UntypedStorage) is _torchs_reduce:
        ForkingPickler.register(torch.UntypedStorage, reduce_storage)
    _theirs.reduce_storage = reduce_storage


def move(storage: Any) -> bool:
    """Move a storage that is not shared into Forklift's memory. False if that is impossible."""
    if not _mechanics.known() or storage.device.type != "cpu" or storage.nbytes() == 0:
        return False
    if _torchs_is_shared(storage):
        return False
    try:
        return bool(_mechanics.move(storage._cdata)) or is_held(storage)
    except ForkliftError:
        return False  # no domain, or no memory left in it: torch's own sharing may still work


def _share_memory(theirs: Callable[..., Any]) -> Callable[..., Any]:
    def share_memory_(self: Any, *args: Any, **options: Any) -> Any:
        if is_held(self):
            return self
        return self if move(self) else theirs(self, *args, **options)

    share_memory_.__doc__ = theirs.__doc__
    return share_memory_


def _share_tensor(theirs: Callable[..., Any]) -> Callable[..., Any]:
    def share_memory_(self: Any, *args: Any, **options: Any) -> Any:
        shared = theirs(self, *args, **options)
        if type(self) in (torch.Tensor, torch.nn.Parameter):
            _mechanics.give_back_old(self, self.untyped_storage())
        return shared

    share_memory_.__doc__ = theirs.__doc__
    return share_memory_


def _resize(theirs: Callable[..., Any]) -> Callable[..., Any]:
    def resize_(self: Any, size: int) -> Any:
        if size != 0 or not is_held(self):
            return theirs(self, size)
        # Programs free the memory of a tensor that way and keep the tensor. Others keep what they have.
        may_grow = _mechanics.allow_resizing(self._cdata)
        try:
            return theirs(self, size)
        finally:
            if not may_grow:
                _mechanics.forbid_resizing(self._cdata)

    resize_.__doc__ = theirs.__doc__
    return resize_


def _leaving(theirs: Callable[..., Any]) -> Callable[..., Any]:
    def share(self: Any, *args: Any, **options: Any) -> Any:
        if is_held(self):
            warnings.warn(
                "a storage leaves Forklift's shared memory for torch's own: processes that have it already "
                "keep what it was",
                RuntimeWarning,
                stacklevel=3,
            )
        return theirs(self, *args, **options)

    return share


def _named(theirs: Callable[..., Any]) -> Callable[..., Any]:
    def share(self: Any, *args: Any, **options: Any) -> Any:
        # Of the strategy file_system: a name that any process finds, as torch's own.
        if torch.multiprocessing.get_sharing_strategy() == "file_system" and not is_held(self):
            move(self)
        named = _mechanics.share_name(self._cdata, self.data_ptr()) if is_held(self) else None
        return theirs(self, *args, **options) if named is None else (*named, self.nbytes())

    return share


def _new_shared(theirs: Callable[[int], Any]) -> Callable[[int], Any]:
    def new_using_fd_cpu(size: int) -> Any:
        if size > 0 and _mechanics.known() and _mechanics.slot() is not None:
            try:
                return _mechanics.empty(size).untyped_storage()
            except ForkliftError:
                pass
        return theirs(size)

    return new_using_fd_cpu


# --- sending through picklers that are not Forklift's


def wrap_tensors() -> None:
    """Have tensors on a GPU travel by Forklift's handles among the arguments of processes that it starts."""
    for kind in (torch.Tensor, torch.nn.Parameter):
        if _registered.get(kind) is _torchs_reduce_tensor:
            ForkingPickler.register(kind, reduce_tensor)
    _theirs.reduce_tensor = reduce_tensor


def reduce_tensor(tensor: Any) -> Any:
    """Replaces torch.multiprocessing.reductions.reduce_tensor."""
    reduced = None
    if tensor.device.type == "cuda" and tensor.layout == torch.strided and not tensor.is_nested:
        reduced = _reduce_argument(tensor)
    return _torchs_reduce_tensor(tensor) if reduced is None else reduced


def _reduce_argument(tensor: Any) -> Any:
    from forklift.multiprocessing._start.invitation import is_invited

    popen: Any = _std_context.get_spawning_popen()
    if not is_invited(popen) or tensor.is_conj() or tensor.is_neg() or tensor.is_quantized:
        return None
    return cuda.reduce_tensor(tensor)


def reduce_storage(storage: Any) -> Any:
    """Replaces torch.multiprocessing.reductions.reduce_storage."""
    from forklift.multiprocessing._start.invitation import invitation_for, is_invited

    popen: Any = _std_context.get_spawning_popen()
    if storage.device.type == "cuda":
        reduced = cuda.reduce_storage(storage) if is_invited(popen) else None
        return _torchs_reduce(storage) if reduced is None else reduced
    if is_invited(popen) and not is_held(storage):
        move(storage)
    if not is_held(storage):
        return _torchs_reduce(storage)
    if popen is None:
        loan = _Loan(storage)
        return _borrow, (_sharer.register(loan.lend, loan.close), storage.nbytes())
    invitation = invitation_for(popen)
    return _claim, (invitation, _offer(storage, invitation.slot), storage.nbytes())


def _offer(storage: Any, slot: tuple[int, int]) -> bytes:
    return bytes(_mechanics.offer(storage._cdata, storage.data_ptr(), *slot))


def _claim(_joined: None, handle: bytes, size: int) -> Any:
    return _mechanics.claim(handle, size)


class _Loan:
    """Keeps a storage until the receiver of its pickle has asked for it.

    ``lend`` runs in the thread of the standard library's resource sharer.
    """

    def __init__(self, storage: Any) -> None:
        self._storage = storage

    def close(self) -> None:
        self._storage = None

    def lend(self, connection: Any, pid: int) -> None:
        ours, theirs = _mechanics.slot(), connection.recv()
        if theirs is None:
            invitation = _core.invite()
            theirs = (ours[0], invitation.slot, invitation.generation)
            connection.send(("join", theirs[1:]))
            for fd in (invitation.control, invitation.data, invitation.lock):
                _reduction.send_handle(connection, fd, pid)
            connection.recv()  # the receiver has joined: from here on the slot lives and dies with it
            invitation.close()
        if theirs[0] == ours[0]:
            connection.send(("claim", _offer(self._storage, theirs[1:])))
        else:
            connection.send(("copy", bytes(self._storage)))


def _borrow(ident: Any, size: int) -> Any:
    with _sharer.get_connection(ident) as connection:
        connection.send(_mechanics.slot())
        what, detail = connection.recv()
        if what == "join":
            fds = [_reduction.recv_handle(connection) for _ in range(3)]
            if _core.join(*fds, *detail):
                for fd in fds:
                    os.set_inheritable(fd, False)
            connection.send("joined")
            what, detail = connection.recv()
    if what == "claim":
        return _mechanics.claim(detail, size)
    warnings.warn(
        "a tensor came from a process of another Forklift domain: it is a copy", RuntimeWarning, stacklevel=2
    )
    return torch.frombuffer(bytearray(detail), dtype=torch.uint8).clone().untyped_storage()

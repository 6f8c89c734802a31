"""The collectives of the ranks on one machine, on torch's tensors: forklift.collectives in torch's words.

`Collectives` is what a process group needs; `Ranks` is it in shared memory, and `machines.TwoSteps` between
machines. Tensors are of the CPU, ``out`` has the dtype of ``x``, and parts are equal.

A tensor that comes again is moved into shared memory, where the others read it without a copy: gradients'
buckets come in each step.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch.distributed import DistBackendError

from forklift import _core
from forklift.adapters.torch import sharing
from forklift.adapters.torch.distributed.running import Counts

__all__ = ["OF_BOOLS", "Collectives", "Ranks"]

# Smaller tensors are copied: that takes a few microseconds.
_MOVED_BYTES = 64 << 10
_MOST_VIEWS = 256
_NEW: Any = object()

# dtypes of which no arithmetic is known here; their bytes can be copied.
_BYTES_ONLY = {
    getattr(torch, name)
    for name in ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu")
    if hasattr(torch, name)
}


def _and(x: Any, y: Any) -> None:
    x[...] = x & y


def _or(x: Any, y: Any) -> None:
    x[...] = x | y


def _xor(x: Any, y: Any) -> None:
    x[...] = x ^ y


# The reductions that forklift.collectives does not have by name.
_BITWISE: dict[str, Callable[[Any, Any], None]] = {"and": _and, "or": _or, "xor": _xor}
# Of bools forklift.collectives has these two only; as numbers they would be added and multiplied.
OF_BOOLS = {"sum": "max", "product": "min", "and": "min", "or": "max"}


class Collectives(Protocol):
    """The collectives of a group. ``timeout``: in seconds, for the other ranks to come."""

    rank: int
    size: int

    def barrier(self, timeout: float) -> None: ...
    def broadcast(self, x: Any, root: int, timeout: float) -> None: ...
    def all_reduce(self, x: Any, op: str, timeout: float) -> None: ...
    def reduce(self, x: Any, root: int, op: str, timeout: float) -> None:
        """``x`` of the other ranks stays as it is."""

    def all_gather(self, x: Any, out: Any, timeout: float) -> None:
        """``out``: as many elements as all ranks' ``x``, without gaps."""

    def gather(self, x: Any, out: Any, root: int, timeout: float) -> None:
        """``out``: at the root as of all_gather, None elsewhere."""

    def scatter(self, x: Any, out: Any, root: int, timeout: float) -> None:
        """``x``: at the root as many elements as all ranks' ``out``, None elsewhere."""

    def reduce_scatter(self, x: Any, out: Any, op: str, timeout: float) -> None: ...
    def all_to_all(self, x: Any, out: Any, timeout: float) -> None: ...
    def close(self) -> None: ...


class Ranks:
    """The ranks on this machine. ``names``: of each of them, its rank in the process group."""

    def __init__(self, core: _core.GroupRank, counts: Counts, names: list[int]) -> None:
        self._core: _core.GroupRank | None = core
        self._counts = counts
        self._names = names
        self._views: dict[Any, Any] = {}  # None: of a tensor that has come once
        self.rank = core.rank
        self.size = core.size

    def barrier(self, timeout: float) -> None:
        self._run("barrier", None, None, -1, None, timeout)

    def broadcast(self, x: Any, root: int, timeout: float) -> None:
        x = self._shown(_copied(x))
        self._run("broadcast", x, x, root, None, timeout)

    def all_reduce(self, x: Any, op: str, timeout: float) -> None:
        how = _reduction(op, x)
        x = self._shown(_detached(x))
        self._run("all_reduce", x, x, -1, how, timeout)

    def reduce(self, x: Any, root: int, op: str, timeout: float) -> None:
        how = _reduction(op, x)
        x = self._shown(_detached(x))
        self._run("reduce", x, x, root, how, timeout)

    def all_gather(self, x: Any, out: Any, timeout: float) -> None:
        x = self._shown(_copied(x))
        self._run("all_gather", x, _copied(out), -1, None, timeout)

    def gather(self, x: Any, out: Any, root: int, timeout: float) -> None:
        x = self._shown(_copied(x))
        self._run("gather", x, _copied(out) if self.rank == root else None, root, None, timeout)

    def scatter(self, x: Any, out: Any, root: int, timeout: float) -> None:
        x = _copied(x) if self.rank == root else None
        self._run("scatter", x, _copied(out), root, None, timeout)

    def reduce_scatter(self, x: Any, out: Any, op: str, timeout: float) -> None:
        how = _reduction(op, x)
        x = self._shown(_detached(x))
        self._run("reduce_scatter", x, _detached(out), -1, how, timeout)

    def all_to_all(self, x: Any, out: Any, timeout: float) -> None:
        x = self._shown(_copied(x))
        self._run("all_to_all", x, _copied(out), -1, None, timeout)

    def close(self) -> None:
        """Leave the group: the others' later calls fail."""
        self._core = None

    def _run(self, name: str, x: Any, out: Any, root: int, op: Any, timeout: float) -> None:
        if self._core is None:
            raise DistBackendError(f"{name}: this process group was destroyed")
        try:
            self._core.run(name, x, out, root, op, timeout)
        except TimeoutError as error:
            raise DistBackendError(self._late(error, timeout)) from None

    def _late(self, error: TimeoutError, timeout: float) -> str:
        missing = [self._names[rank] for rank in self._counts.behind()]
        if not missing:
            return f"{error} (the time-out was {timeout:g} s)"
        ranks = "rank " + str(missing[0]) if len(missing) == 1 else "ranks " + ", ".join(map(str, missing))
        return f"after {timeout:g} s {ranks} had not made the call that the others wait in: {error}"

    def _shown(self, x: Any) -> Any:
        """What forklift.collectives gets for a tensor: of one that has come before, a view that is kept.

        A large tensor that has come before is moved into shared memory, for all tensors over its storage. A
        view costs a tenth of importing the tensor. It owns no memory: it is used only for a tensor that lies
        where it looks, and that tensor lives as long as the call.
        """
        key = (x.data_ptr(), x.shape, x.dtype)
        view = self._views.get(key, _NEW)
        if view is not _NEW and view is not None and x.is_contiguous() and not x.is_neg():
            return view
        if len(self._views) >= _MOST_VIEWS:
            self._views.clear()
        if view is _NEW:
            self._views[key] = None
        elif view is None and x.is_contiguous() and not (x.is_complex() or x.is_neg()) and x.numel():
            self._views.pop(key, None)  # cleared above, or at its old place
            if x.numel() * x.element_size() >= _MOVED_BYTES:
                sharing.move(x.untyped_storage())
            view = self._views[(x.data_ptr(), x.shape, x.dtype)] = _view_of(x)
            return view
        return x


def _view_of(x: Any) -> Any:
    memory = (ctypes.c_char * (x.numel() * x.element_size())).from_address(x.data_ptr())
    return _core._import_any(torch.frombuffer(memory, dtype=x.dtype).view(x.shape))[0]


def _detached(x: Any) -> Any:
    return x.detach() if x.requires_grad else x


def _copied(x: Any) -> Any:
    """A tensor of which only the bytes count."""
    x = _detached(x)
    return x.view(torch.uint8) if x.dtype in _BYTES_ONLY else x


def _reduction(op: str, x: Any) -> Any:
    if x.dtype is torch.bool:
        op = OF_BOOLS.get(op, op)
    return _BITWISE.get(op, op)

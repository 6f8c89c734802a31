"""Collectives in two steps: among the ranks of each machine in shared memory, and between machines.

Ranks talk to other machines through a `Between` of the ranks with the same place on each machine. It has
what the algorithms here need and nothing more; `mpi` implements it. In an all_reduce of a large tensor each
rank takes its share between the machines; for all else the first rank of each, its leader, does it.

The elements of a machine are combined in the order of ranks; in which order machines are is the Between's
matter, and so is whether the last bits are the same in each run. All ranks get the same bits.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch

from forklift.adapters.torch.distributed.ranks import OF_BOOLS, Ranks

__all__ = ["Between", "TwoSteps"]


class Between(Protocol):
    """Collectives of one rank of each machine; tensors have no gaps.

    ``timeout``: in seconds, then DistBackendError.
    """

    def barrier(self, timeout: float) -> None: ...

    def all_reduce(self, x: Any, op: str, timeout: float) -> None:
        """``op``: sum, product, min, max, and, or, xor. No bools, no floats of 16 bits."""

    def broadcast(self, x: Any, machine: int, timeout: float) -> None:
        """Bytes."""

    def all_gather(self, x: Any, out: Any, counts: list[int], timeout: float) -> None:
        """Bytes, ``counts`` of them of each machine, one after the other."""

    def close(self) -> None: ...


# From so many bytes on each rank takes a share.
_SHARED_BYTES = 1 << 20


class TwoSteps:
    """All ranks of a group. ``machines``: the ranks on each.

    ``between``: None at a rank whose place another machine lacks.
    """

    def __init__(self, here: Ranks, rank: int, machines: list[list[int]], between: Between | None) -> None:
        self._here = here
        self._machines = machines
        self._own = next(index for index, ranks in enumerate(machines) if rank in ranks)
        self._between = between
        self._shares = here.size > 1 and len(set(map(len, machines))) == 1  # each rank can take one
        self.rank = rank
        self.size = sum(map(len, machines))

    def barrier(self, timeout: float) -> None:
        self._here.barrier(timeout)
        self._among_leaders(lambda between: between.barrier(timeout))
        self._here.barrier(timeout)

    def all_reduce(self, x: Any, op: str, timeout: float) -> None:
        x = x.detach()
        if op == "mean" and not x.dtype.is_floating_point and not x.dtype.is_complex:
            raise ValueError(f"there is no reduction mean of {x.dtype}")
        if x.dtype == torch.bool:
            op = OF_BOOLS.get(op, op)
        whole = _wide(x)
        rest = whole.view(-1)
        if self._shares and not whole.is_complex() and whole.nbytes >= _SHARED_BYTES:
            even = rest.numel() // self._here.size * self._here.size
            self._all_reduce_in_shares(rest[:even], _plain(op), timeout)
            rest = rest[even:]
        if rest.numel():
            self._here.reduce(rest, 0, _plain(op), timeout)
            self._among_leaders(lambda each: each.all_reduce(_numbers(rest), _plain(op), timeout))
            self._here.broadcast(rest, 0, timeout)
        if op == "mean":
            whole.div_(self.size)
        if whole is not x:
            x.copy_(whole)

    def _all_reduce_in_shares(self, x: Any, op: str, timeout: float) -> None:
        """Every rank takes its share of `x` to the ranks with the same place on the other machines."""
        count = x.numel() // self._here.size
        share = x[self._here.rank * count : (self._here.rank + 1) * count]
        self._here.reduce_scatter(x, share, op, timeout)
        self._between_machines(lambda each: each.all_reduce(_numbers(share), op, timeout))
        self._here.all_gather(share, x, timeout)

    def broadcast(self, x: Any, root: int, timeout: float) -> None:
        whole = x.detach().contiguous()
        machine = next(index for index, ranks in enumerate(self._machines) if root in ranks)
        if self._own == machine:
            self._here.broadcast(whole, self._machines[machine].index(root), timeout)
        self._among_leaders(lambda between: between.broadcast(_bytes(whole), machine, timeout))
        if self._own != machine:
            self._here.broadcast(whole, 0, timeout)
        if whole.data_ptr() != x.data_ptr():
            x.detach().copy_(whole)

    def reduce(self, x: Any, root: int, op: str, timeout: float) -> None:
        whole = x.detach().clone()
        self.all_reduce(whole, op, timeout)
        if self.rank == root:
            x.detach().copy_(whole)

    def all_gather(self, x: Any, out: Any, timeout: float) -> None:
        mine = _bytes(x.detach().contiguous())
        count = mine.numel()
        gathered = torch.empty(self.size * count, dtype=torch.uint8)
        leads = self._here.rank == 0
        here = torch.empty(self._here.size * count, dtype=torch.uint8) if leads else None
        self._here.gather(mine, here, 0, timeout)
        counts = [len(ranks) * count for ranks in self._machines]
        self._among_leaders(lambda between: between.all_gather(here, gathered, counts, timeout))
        self._here.broadcast(gathered, 0, timeout)
        order = [rank for ranks in self._machines for rank in ranks]
        parts = _bytes(out.detach()).view(self.size, count)
        for place, rank in enumerate(order):
            parts[rank] = gathered[place * count : (place + 1) * count]

    def gather(self, x: Any, out: Any, root: int, timeout: float) -> None:
        self.all_gather(x, self._room(x) if out is None else out, timeout)

    def scatter(self, x: Any, out: Any, root: int, timeout: float) -> None:
        whole = self._room(out) if x is None else x.detach()
        self.broadcast(whole, root, timeout)
        out.detach().copy_(whole.reshape(self.size, -1)[self.rank].view(out.shape))

    def reduce_scatter(self, x: Any, out: Any, op: str, timeout: float) -> None:
        whole = x.detach().clone()
        self.all_reduce(whole, op, timeout)
        out.detach().copy_(whole.view(self.size, -1)[self.rank].view(out.shape))

    def all_to_all(self, x: Any, out: Any, timeout: float) -> None:
        everything = self._room(x)
        self.all_gather(x, everything, timeout)
        parts = everything.view(self.size, self.size, -1)[:, self.rank]
        out.detach().view(self.size, -1).copy_(parts)

    def close(self) -> None:
        self._here.close()
        if self._between is not None:
            self._between.close()

    def _room(self, x: Any) -> Any:
        return torch.empty(self.size * x.numel(), dtype=x.dtype)

    def _among_leaders(self, action: Any) -> None:
        if self._here.rank == 0:
            self._between_machines(action)

    def _between_machines(self, action: Any) -> None:
        assert self._between is not None
        try:
            action(self._between)
        except BaseException:
            self._here.close()  # the others of this machine would wait for this rank
            raise


def _wide(x: Any) -> Any:
    """Without gaps, and halves as float32: they are rounded once, when all machines are combined."""
    if x.dtype in (torch.float16, torch.bfloat16):
        return x.float()
    return x.contiguous()


def _numbers(x: Any) -> Any:
    """In one dimension: MPI takes no strides but those, not even where a dimension has one element."""
    x = x.view(-1)
    return x.view(torch.uint8) if x.dtype == torch.bool else x


def _plain(op: str) -> str:
    return "sum" if op == "mean" else op


def _bytes(x: Any) -> Any:
    return x.reshape(-1).view(torch.uint8)

"""Between machines by MPI: a communicator of ranks of which each machine has one, through mpi4py.

Calls are started without waiting and then looked after, so that a time-out holds and Python's other threads
run.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
import time
from typing import Any

from torch.distributed import DistBackendError

__all__ = ["Lane", "own_rank"]

# Where Open MPI, MPICH and its relatives tell a process its rank.
_VARIABLES = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK")
_LONGEST_PAUSE_S = 1e-3
# NumPy's functions for what MPI and torch call otherwise.
_UFUNCS = {
    "sum": "add",
    "product": "multiply",
    "min": "minimum",
    "max": "maximum",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
}
# A large all-reduce is made of pieces that stay in a cache between their way and their sum. With MPI's own
# all-reduce of such pieces it took a quarter longer.
_PIECE_BYTES = 1 << 20
# A call is looked after without pauses while it can be expected to go on: MPI moves data only then.
_BYTES_A_SECOND = 0.25e9


def own_rank() -> int:
    """This process's rank in MPI_COMM_WORLD, without importing mpi4py; -1: there is none, or no mpi4py."""
    module = sys.modules.get("mpi4py.MPI")
    if module is not None:
        return int(module.COMM_WORLD.Get_rank())
    found = next((os.environ[each] for each in _VARIABLES if each in os.environ), None)
    if found is None or importlib.util.find_spec("mpi4py") is None:
        return -1
    return int(found)


class Lane:
    """``ranks``: in MPI_COMM_WORLD, one of each machine, of which this process is one."""

    def __init__(self, ranks: list[int]) -> None:
        from mpi4py import MPI

        self._mpi: Any = MPI
        world = MPI.COMM_WORLD
        self._comm: Any = world.Create_group(world.Get_group().Incl(ranks))
        self._ops = {
            "sum": MPI.SUM,
            "product": MPI.PROD,
            "min": MPI.MIN,
            "max": MPI.MAX,
            "and": MPI.BAND,
            "or": MPI.BOR,
            "xor": MPI.BXOR,
        }

    def barrier(self, timeout: float) -> None:
        self._finish("barrier", [self._comm.Ibarrier()], 0, timeout, time.monotonic())

    def all_reduce(self, x: Any, op: str, timeout: float) -> None:
        since = time.monotonic()
        if x.nbytes < _PIECE_BYTES:
            request = self._comm.Iallreduce(self._mpi.IN_PLACE, x, self._ops[op])
            self._finish("all_reduce", [request], x.nbytes, timeout, since)
            return
        for piece in x.split(_PIECE_BYTES // x.element_size()):
            self._reduce_piece(piece.numpy(), op, timeout, since)

    def _reduce_piece(self, x: Any, op: str, timeout: float, since: float) -> None:
        """Each machine combines its part of the piece, in the order of machines, and sends it on."""
        import numpy as np

        me, size = self._comm.rank, self._comm.size
        others = [each for each in range(size) if each != me]
        parts = np.array_split(x, size)
        mine = parts[me]
        theirs = {each: np.empty_like(mine) for each in others}
        self._swap(others, parts, theirs, timeout, since)
        ordered = [mine.copy() if each == me else theirs[each] for each in range(size)]
        combine = getattr(np, _UFUNCS[op])
        mine[...] = functools.reduce(lambda a, b: combine(a, b, out=a), ordered)
        self._swap(others, dict.fromkeys(others, mine), parts, timeout, since)

    def _swap(self, others: list[int], out: Any, into: Any, timeout: float, since: float) -> None:
        requests = [self._comm.Irecv(into[each], each) for each in others]
        requests += [self._comm.Isend(out[each], each) for each in others]
        nbytes = sum(into[each].nbytes for each in others)
        self._finish("all_reduce", requests, nbytes, timeout, since)

    def broadcast(self, x: Any, machine: int, timeout: float) -> None:
        since = time.monotonic()
        self._finish("broadcast", [self._comm.Ibcast(x, machine)], x.nbytes, timeout, since)

    def all_gather(self, x: Any, out: Any, counts: list[int], timeout: float) -> None:
        since = time.monotonic()
        self._finish("all_gather", [self._comm.Iallgatherv(x, [out, counts])], out.nbytes, timeout, since)

    def _finish(self, what: str, requests: list[Any], size: int, timeout: float, since: float) -> None:
        """`since`: when the whole call began, to which the time-out belongs."""
        eager = time.monotonic() + size / _BYTES_A_SECOND
        pause = 10e-6
        while not self._mpi.Request.Testall(requests):
            now = time.monotonic()
            if now > since + timeout:
                raise DistBackendError(f"{what}: not all machines had come after {timeout:g} s")
            if now < eager:
                os.sched_yield()
            else:
                time.sleep(pause)
                pause = min(pause * 1.5, _LONGEST_PAUSE_S)

    def close(self) -> None:
        """The communicator is left alone: to free it would be a collective call."""

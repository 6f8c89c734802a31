"""mpi4py: two ranks of a job of its own under mpirun, as buffers or as pickled objects.

The ranks are not bound to processors, as the other contenders are not, and MPI polls while it waits.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from peers import exchange
from peers.exchange import End

BENCH = Path(__file__).resolve().parents[1]
_RANK = "from peers.mpi import rank; rank()"
# More ranks than processors would make Open MPI yield; here it is told to poll as it does otherwise.
_MPIRUN = ("mpirun", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "0")


def environment(**more: str) -> dict[str, str]:
    """Of a job. As root, Open MPI wants to be told that this is meant."""
    return {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", **more}


def job(ranks: int, *command: str) -> float:
    """Runs Python in each rank of a job; the number that the first one prints."""
    done = subprocess.run(
        [*_MPIRUN, "-n", str(ranks), sys.executable, *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env=environment(PYTHONPATH=str(BENCH)),
    )
    return float(done.stdout)


class BufferEnd(End):
    """Ints as eight bytes, not pickled; arrays from and into memory that is there."""

    def __init__(self, world: Any, nbytes: int) -> None:
        import numpy as np

        self._world, self._other = world, 1 - world.rank
        self._sent: Any = np.zeros(1, np.int64)
        self._got: Any = np.zeros(1, np.int64)
        self._room: Any = np.zeros(nbytes // 4, np.float32)

    def put(self, item: int) -> None:
        self._sent[0] = item
        self._world.Send(self._sent, self._other)

    def get(self) -> int:
        self._world.Recv(self._got, self._other)
        return int(self._got[0])

    def put_array(self, array: Any) -> None:
        self._world.Send(array, self._other)

    def read_array(self) -> float:
        self._world.Recv(self._room, self._other)
        return float(self._room.sum())


class ObjectEnd(End):
    def __init__(self, world: Any, _nbytes: int) -> None:
        self._world, self._other = world, 1 - world.rank

    def put(self, item: int) -> None:
        self._world.send(item, self._other)

    def get(self) -> int:
        item: int = self._world.recv(None, self._other)
        return item

    def put_array(self, array: Any) -> None:
        self._world.send(array, self._other)

    def read_array(self) -> float:
        return float(self._world.recv(None, self._other).sum())


ENDS = {"buffers": BufferEnd, "objects": ObjectEnd}


def rank() -> None:
    """A rank's program. In sys.argv: the kind of end, what is measured, how often, an array's bytes."""
    from mpi4py import MPI

    kind, what, count, nbytes = sys.argv[1:]
    world = MPI.COMM_WORLD
    end = ENDS[kind](world, int(nbytes))
    world.Barrier()
    if world.rank == 0:
        print(exchange.measure(what, end, int(count), int(nbytes)), flush=True)
    else:
        exchange.answer(what, end, int(count), int(nbytes))


def between_ranks(kind: str, what: str, count: int, nbytes: int = 0) -> float:
    return job(2, "-c", _RANK, kind, what, str(count), str(nbytes))


def pool(what: str, count: int) -> float:
    """mpi4py.futures with two workers: see mpi/pool_peer.py."""
    return job(3, "-m", "mpi4py.futures", str(BENCH / "mpi" / "pool_peer.py"), what, str(count))

"""A script of an MPI job that measures mpi4py.futures with two workers.

mpirun -n 3 python -m mpi4py.futures pool_peer.py one|chunks|call COUNT

Prints thousands of trivial tasks a second, one a message or in chunks, or the microseconds of one call.
"""

from __future__ import annotations

import sys

from peers import pools


def main(what: str, count: int) -> None:
    from mpi4py.futures import MPIPoolExecutor

    with MPIPoolExecutor() as executor:
        executor.bootup()
        assert executor.num_workers == pools.WORKERS
        print(pools.executor(executor, what, count), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

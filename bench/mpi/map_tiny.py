"""A script of an MPI job that prints how many trivial tasks a second a pool of MPI runs, in thousands.

mpirun -n 3 python -m forklift.mpi map_tiny.py ours COUNT
mpirun -n 3 python -m mpi4py.futures map_tiny.py peer COUNT
"""

from __future__ import annotations

import contextlib
import sys
import time
from typing import Any


def same(argument: Any) -> Any:
    return argument


def main(whose: str, count: int) -> None:
    with contextlib.ExitStack() as stack:
        if whose == "ours":
            import forklift.multiprocessing as mp

            pool: Any = stack.enter_context(mp.get_context("mpi").Pool(2))

            def run(items: list[int]) -> list[Any]:
                return list(pool.map(same, items, chunksize=1))
        else:
            from mpi4py.futures import MPIPoolExecutor

            executor = stack.enter_context(MPIPoolExecutor())
            executor.bootup()
            assert executor.num_workers == 2

            def run(items: list[int]) -> list[Any]:
                return list(executor.map(same, items, chunksize=1))

        run(list(range(500)))
        items = list(range(count))
        begin = time.perf_counter()
        results = run(items)
        seconds = time.perf_counter() - begin
        assert results == items
        print(count / seconds / 1e3, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

"""A script that ends pools while results are on their way: ``python -m forklift.mpi mpi_ending.py``.

It prints how many blocks of shared memory it has after each, some seconds later at most.
"""

from __future__ import annotations

import gc
import time

import forklift
import forklift.multiprocessing as mp

POOLS = 5
SECONDS = 10.0


def large(_: int) -> bytes:
    return bytes(32 << 20)


def end_one() -> None:
    with mp.get_context("mpi").Pool(2) as pool:
        results = pool.imap_unordered(large, range(6))
        next(results)
    pool.join()


def blocks() -> int:
    gc.collect()
    return int(forklift.stats()["blocks"])


def main() -> None:
    before = blocks()
    for _ in range(POOLS):
        end_one()
        end = time.monotonic() + SECONDS
        while blocks() != before and time.monotonic() < end:
            time.sleep(0.01)
        print(blocks() - before, flush=True)


if __name__ == "__main__":
    main()

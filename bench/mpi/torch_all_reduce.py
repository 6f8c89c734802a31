"""A rank of torch.distributed in an MPI job: microseconds of an all_reduce, by rank 0.

export FORKLIFT_TORCH_RANKS_PER_MACHINE=2
mpirun -n 4 python bench/mpi/torch_all_reduce.py forklift /tmp/store 16777216 5
"""

from __future__ import annotations

import os
import statistics
import sys
import time

import torch
import torch.distributed as dist

WARM_UP = 2


def main() -> None:
    backend, store, elements, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    torch.set_num_threads(1)
    if backend == "forklift":
        import forklift.adapters.torch.distributed  # noqa: F401  # registers it
    rank, size = (int(os.environ[f"OMPI_COMM_WORLD_{each}"]) for each in ("RANK", "SIZE"))
    dist.init_process_group(backend, init_method=f"file://{store}", rank=rank, world_size=size)
    x = torch.ones(elements)
    times = []
    for i in range(-WARM_UP, count):
        dist.barrier()
        begin = time.perf_counter()
        dist.all_reduce(x)
        if i >= 0:
            times.append(time.perf_counter() - begin)
    if rank == 0:
        print(statistics.median(times) * 1e6, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

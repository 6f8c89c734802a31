"""torch.distributed on two ranks of one machine: our backend beside gloo, over loopback.

And on four ranks in an MPI job, of which each two count as a machine for ours. The same program with another
name of the backend. The ranks compute with one thread each.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from peers.mpi import environment

from rows.spec import OURS, Library, Row, Scale

PEER = "torch.distributed"
BENCH = Path(__file__).parents[1]
_RANK = "from rows.process_groups import reduce_in_job; reduce_in_job()"
WARM_UP = 10
BATCH = 32


def _begin(rank: int, backend: str, store: Any, size: int = 2) -> Any:
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    if backend == "forklift":
        import forklift.adapters.torch.distributed  # noqa: F401  # registers it
    dist.init_process_group(backend, init_method=f"file://{store}", rank=rank, world_size=size)
    return dist


def _end(dist: Any, backend: str) -> None:
    dist.destroy_process_group()
    if backend == "gloo":
        # Its threads outlive the group, and one that frees a tensor while the interpreter ends aborts the
        # process (pytorch/pytorch#190489, torch 2.13).
        os._exit(0)


def _reduce(rank: int, backend: str, store: Any, elements: int, count: int, told: Any, size: int = 2) -> None:
    """Microseconds of one all_reduce; the ranks come to it together."""
    import torch

    dist = _begin(rank, backend, store, size)
    x = torch.ones(elements)
    times = []
    for i in range(-WARM_UP, count):
        dist.barrier()
        begin = time.perf_counter()
        dist.all_reduce(x)
        if i >= 0:
            times.append(time.perf_counter() - begin)
    if rank == 0:
        told.put(statistics.median(times) * 1e6)
    _end(dist, backend)


def _train(rank: int, backend: str, store: Any, width: int, count: int, told: Any) -> None:
    """Steps a second of DistributedDataParallel."""
    import torch

    dist = _begin(rank, backend, store)
    torch.manual_seed(1)
    layers = [torch.nn.Linear(64, width), torch.nn.ReLU(), torch.nn.Linear(width, 10)]
    network = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    x, y = torch.randn(BATCH, 64), torch.randint(10, (BATCH,))
    begin = 0.0
    for i in range(-WARM_UP, count):
        if i == 0:
            dist.barrier()
            begin = time.perf_counter()
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(network(x), y).backward()
        optimizer.step()
    if rank == 0:
        told.put(count / (time.perf_counter() - begin))
    _end(dist, backend)


def _measured(target: Any, library: Library, size: int, count: int) -> float:
    import tempfile

    import forklift.multiprocessing as mp

    told = mp.get_context("spawn").SimpleQueue()
    backend = "forklift" if library.name == OURS else "gloo"
    with tempfile.TemporaryDirectory() as folder:
        work = (backend, f"{folder}/store", size, count, told)
        mp.start_processes(target, work, nprocs=2, start_method="spawn")
    took: float = told.get()
    return took


def _all_reduce(library: Library, scale: Scale) -> float:
    return _measured(_reduce, library, scale.nbytes(1 << 26) // 4, scale.count(20, 3))


class _Printed:
    """What a rank tells, as a line of its output."""

    def put(self, value: float) -> None:
        print(value, flush=True)


def reduce_in_job() -> None:
    """As `_reduce`, in a rank of an MPI job. In sys.argv: the backend, its store, elements, how often."""
    rank, size = (int(os.environ[f"OMPI_COMM_WORLD_{each}"]) for each in ("RANK", "SIZE"))
    backend, store, elements, count = sys.argv[1:]
    _reduce(rank, backend, store, int(elements), int(count), _Printed(), size)


def _two_machines(library: Library, scale: Scale) -> float:
    import tempfile

    backend = "forklift" if library.name == OURS else "gloo"
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [
                *("mpirun", "--oversubscribe", "-n", "4", sys.executable, "-c", _RANK, backend),
                *(f"{folder}/store", str(scale.nbytes(1 << 26) // 4), str(scale.count(10, 2))),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            env=environment(FORKLIFT_TORCH_RANKS_PER_MACHINE="2", PYTHONPATH=str(BENCH)),
        )
    return float(done.stdout)


def _steps(library: Library, scale: Scale) -> float:
    return _measured(_train, library, 256, scale.count(2000, 20))


ROWS: tuple[Row, ...] = (
    Row(
        "torch-all-reduce-64M",
        "us",
        1.5,
        measure=_all_reduce,
        peer=PEER,
        note="two ranks, through torch.distributed; the peer is gloo over loopback",
    ),
    Row(
        "torch-all-reduce-64M-2x2",
        "us",
        1.5,
        measure=_two_machines,
        peer=PEER,
        note="four ranks, each two a machine, ours by MPI between them; the peer is gloo over loopback",
    ),
    Row(
        "torch-ddp-cpu",
        "1/s",
        1.3,
        more_is_better=True,
        measure=_steps,
        peer=PEER,
        note="two ranks; 19,000 parameters; the peer is gloo over loopback",
    ),
)
if importlib.util.find_spec("mpi4py") is None or shutil.which("mpirun") is None:
    ROWS = tuple(row for row in ROWS if row.measure is not _two_machines)

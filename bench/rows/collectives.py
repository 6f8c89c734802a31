"""Collectives of two processes on one machine: all_reduce of float32, in place, in microseconds.

The peer is torch.distributed with its backend gloo, over loopback. Both reduce torch tensors; ours
lie in shared memory, as they do once they have been sent or shared.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from typing import Any

from rows.spec import OURS, Library, Row, Scale

PEER = "torch.distributed"
WARM_UP = 3


def _timed(reduce: Callable[[], object], barrier: Callable[[], object], count: int) -> float:
    times = []
    for i in range(-WARM_UP, count):
        barrier()
        begin = time.perf_counter()
        reduce()
        if i >= 0:
            times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1e6


def _ours(rank: int, elements: int, count: int, told: Any) -> None:
    import forklift.collectives as dist
    import torch

    group = dist.group()
    x = torch.ones(elements).share_memory_()
    took = _timed(lambda: group.all_reduce(x), group.barrier, count)
    if rank == 0:
        told.put(took)


def _gloo(rank: int, elements: int, count: int, told: Any, store: Any) -> None:
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    x = torch.ones(elements)
    took = _timed(lambda: dist.all_reduce(x), dist.barrier, count)
    if rank == 0:
        told.put(took)
    dist.destroy_process_group()
    os._exit(0)  # Gloo's threads may abort the interpreter's end: pytorch/pytorch#190489


def _row(name: str, nbytes: int, count: int) -> Row:
    def measure(library: Library, scale: Scale) -> float:
        import tempfile

        import forklift.multiprocessing as mp

        elements = scale.nbytes(nbytes) // 4
        told = mp.get_context("spawn").SimpleQueue()
        args: tuple[Any, ...] = (elements, scale.count(count, 3), told)
        if library.name == OURS:
            mp.start_processes(_ours, args, nprocs=2, start_method="spawn")
        else:
            with tempfile.TemporaryDirectory() as folder:
                mp.start_processes(_gloo, (*args, f"{folder}/store"), nprocs=2, start_method="spawn")
        took: float = told.get()
        return took

    return Row(name, "us", 2, measure=measure, peer=PEER, note="two ranks; the peer is gloo over loopback")


ROWS = (
    _row("all-reduce-1M", 1 << 20, 200),
    _row("all-reduce-64M", 1 << 26, 20),
)

"""What the ranks of test_ray_collectives.py run; they import this module by its name."""

from __future__ import annotations

import os
import time
from typing import Any

import collective_targets
import forklift
import forklift.collectives as dist
import numpy as np


def nodes_collectives(rank: int, kind: str, count: int) -> None:
    """The collectives of collective_targets, and what only ranks on several nodes can get wrong."""
    collective_targets.every_collective(rank, kind, count)
    group = dist.group()
    size = group.size
    rng = np.random.default_rng(1)
    for dtype in ("float64", "int32", "uint8", "int16", "uint32", "float16"):
        rows = rng.integers(0, 4, (size, 7)).astype(dtype)
        for op, serial in (("sum", np.sum), ("product", np.prod), ("min", np.min), ("max", np.max)):
            found = group.all_reduce(rows[rank].copy(), op)
            assert found.dtype == rows.dtype
            np.testing.assert_array_equal(found, serial(rows, axis=0).astype(dtype))
    np.testing.assert_array_equal(group.all_reduce(np.array([rank == 0, True]), "min"), [size == 1, True])
    rows = np.arange(size) + 1j
    np.testing.assert_array_equal(group.all_reduce(rows[rank : rank + 1].copy()), [rows.sum()])
    values = np.full(3, 0.1 * (rank + 1))
    everything = group.all_gather(group.all_reduce(values))
    assert (everything == everything[0]).all()  # the same bits at all ranks


def nodes_mistakes(rank: int) -> None:
    collective_targets.mistakes(rank)


def nodes_late(rank: int, told: Any) -> None:
    group = dist.group()
    group.barrier()
    if rank == 0:
        try:
            group.barrier(timeout=0.5)
        except TimeoutError:
            told.put("late")
    else:
        told.get()  # until the first one has given up
        try:
            group.barrier()
        except forklift.BrokenGroupError:
            told.put("broken")


def nodes_loss(rank: int, told: Any) -> None:
    """Combine until a rank, or its node, is killed."""
    group = dist.group()
    group.barrier()
    told.put((rank, os.getpid()))
    try:
        while True:
            group.all_reduce(np.ones(1000))
    except forklift.PeerDiedError as error:
        told.put((rank, str(error)))
        time.sleep(300)

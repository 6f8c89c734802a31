"""What the ranks of the collectives' tests run. A fresh interpreter imports this module by its name."""

from __future__ import annotations

import os
import re
import signal
from typing import Any

import forklift
import forklift.collectives as dist
import numpy as np
import pytest
from forklift import errors


def expect(made: Any, wanted: Any) -> None:
    found = made.numpy() if hasattr(made, "numpy") else np.asarray(made)
    np.testing.assert_array_equal(found, wanted)


def every_collective(rank: int, kind: str, count: int) -> None:
    group = dist.group()
    size = group.size
    assert group.rank == rank
    assert dist.group() is group
    make = _maker(kind)
    ranks = np.arange(size, dtype=np.float32)
    mine = np.full(count, rank, np.float32)
    x = make(mine)
    assert group.all_reduce(x) is x
    expect(x, np.full(count, ranks.sum()))
    expect(group.all_reduce(make(mine), "mean"), np.full(count, ranks.mean()))
    expect(group.broadcast(make(mine), root=size - 1), np.full(count, size - 1))
    reduced = group.reduce(make(mine), 0, "max")
    expect(reduced, np.full(count, size - 1 if rank == 0 else rank))
    everything = np.repeat(ranks, count).reshape(size, count)
    expect(group.all_gather(make(mine)), everything)
    gathered = group.gather(make(mine), root=1)
    if rank == 1:
        expect(gathered, everything)
    else:
        assert gathered is None
    part = group.scatter(make(everything) if rank == 0 else None, make(np.zeros(count, np.float32)))
    expect(part, mine)
    expect(group.reduce_scatter(make(everything)), np.full(count, float(rank * size)))
    rows = np.stack([np.full(count, rank * size + j, np.float32) for j in range(size)])
    expect(group.all_to_all(make(rows)), np.stack([np.full(count, i * size + rank) for i in range(size)]))
    work = group.all_reduce(make(mine), "product", async_op=True)
    expect(work.wait(60), np.zeros(count))
    assert work.done()
    group.barrier()


def _maker(kind: str) -> Any:
    if kind == "numpy":
        return np.array
    if kind == "gaps":
        return lambda array: np.stack([array, array], axis=-1)[..., 0]
    if kind == "torch":
        import torch

        return lambda array: torch.from_numpy(np.array(array))
    return forklift.tensor


def functions(rank: int) -> None:
    group = dist.group()

    def join(accumulated: Any, following: Any) -> None:
        accumulated[:] = accumulated * 2 + following

    for count in (3, 5000):
        expect(group.all_reduce(np.full(count, rank + 1.0), join), np.full(count, (1 * 2 + 2) * 2 + 3))
        work = group.all_reduce(np.full(count, rank + 1.0), join, async_op=True)
        expect(work.wait(), np.full(count, 11))

    def fail(accumulated: Any, following: Any) -> None:
        raise KeyError("mine")

    raised(KeyError, lambda: group.all_reduce(np.ones(3), fail), "'mine'")
    group.barrier()


def mistakes(rank: int) -> None:
    group = dist.group()
    x = np.ones((4, 3), np.float32)
    raised(
        errors.CollectiveMismatchError,
        lambda: group.barrier() if rank == 1 else group.all_reduce(x),
        "rank 1: barrier()",
    )
    raised(ValueError, lambda: group.broadcast(x, root=7), "root 7 of a group of 3")
    raised(ValueError, lambda: group.all_reduce(x > 0), "no reduction sum of bool")
    raised(ValueError, lambda: group.all_reduce(x, "average"), "no reduction")
    raised(TypeError, lambda: group.all_reduce(3), "not a number")
    frozen = np.ones(3)
    frozen.flags.writeable = False
    raised(ValueError, lambda: group.all_reduce(frozen), "read-only")
    raised(ValueError, lambda: group.barrier(timeout=1, async_op=True), "no time-out")
    expect(group.all_reduce(np.array(2)), np.array(6))
    expect(group.all_reduce(np.ones((0, 3))), np.ones((0, 3)))


def raised(kind: type[BaseException], call: Any, text: str) -> None:
    with pytest.raises(kind, match=re.escape(text)):
        call()


def lose_a_rank(rank: int, told: Any) -> None:
    group = dist.group()
    x = np.ones(100_000)
    group.all_reduce(x)
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    raised(errors.PeerDiedError, lambda: group.all_reduce(x), "rank 1 (pid ")
    told.put(rank)


def die_before_joining(rank: int, told: Any) -> None:
    if rank == 1:
        os._exit(0)
    raised(errors.PeerDiedError, dist.group().barrier, "rank 1")
    told.put(rank)


def fork_in_a_rank(rank: int) -> None:
    group = dist.group()
    work = group.barrier(async_op=True) if rank == 0 else None
    pid = os.fork()
    if pid == 0:
        try:
            raised(errors.BrokenByForkError, group.barrier, "no rank of its group")
            if work is not None and not work.done():
                raised(errors.BrokenByForkError, work.wait, "parent")
        except BaseException:
            os._exit(1)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    if work is None:
        group.barrier()  # the other rank's asynchronous one
    group.barrier()


def interrupted(rank: int, ready: Any, told: Any) -> None:
    group = dist.group()
    if rank == 1:
        raised(errors.BrokenGroupError, _call_when_told(group, told), "has given a collective up")
        return
    ready.put(os.getpid())
    raised(KeyboardInterrupt, group.barrier, "")
    told.put(rank)


def _call_when_told(group: dist.Group, told: Any) -> Any:
    def call() -> None:
        told.get()
        group.barrier()

    return call


def joined(memory: Any, rank: int, sums: Any) -> None:
    group = dist.join(memory, rank)
    sums.put(float(group.all_reduce(np.full(10, float(rank)))[0]))

"""What the ranks of the tests of torch.distributed's backend run; a fresh interpreter imports it by name."""

from __future__ import annotations

import functools
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist
from forklift import errors
from torch.nn.parallel import DistributedDataParallel
from torch_distributed_values import Cases, begin, coalesced, objects, odd_memory, same, subgroups, values

__all__ = ["values"]


# --- the order of calls, messages, mistakes


def calls(rank: int, size: int, store: str) -> None:
    begin(rank, size, store)
    _asynchronous(rank, size)
    _no_deadlock(rank)
    _messages(rank, size)
    _mistakes(rank, size)
    _late(rank, size)
    _more_tensors_than_are_known(rank, size)
    dist.destroy_process_group()
    with pytest.raises(ValueError, match="has not been initialized"):
        dist.barrier()


def _asynchronous(rank: int, size: int) -> None:
    total = sum(range(size)) * 1.0
    xs = [torch.full((n,), float(rank)) for n in (4, 30_000, 1, 200_000, 70)]
    works = [dist.all_reduce(x, async_op=True) for x in xs]
    after = torch.full((3,), float(rank))
    dist.all_reduce(after)  # waits for all before it
    same(after, torch.full((3,), total))
    for work, x in zip(reversed(works), reversed(xs), strict=True):
        assert work.is_completed()
        assert work.wait()
        same(x, torch.full_like(x, total))
    work = dist.all_reduce(xs[0], async_op=True)
    doubled = work.get_future().then(lambda future: future.value()[0] * 2)
    same(doubled.wait(), torch.full((4,), total * size * 2))
    work = dist.barrier(async_op=True)
    assert work.wait()


def _more_tensors_than_are_known(rank: int, size: int) -> None:
    """Tensors that come again are known by their places, up to a number."""
    xs = [torch.full((i + 1,), 1.0) for i in range(300)]
    for turn in range(3):
        for i in [*range(256), *range(300)]:
            x = xs[i].fill_(rank + turn)
            dist.all_reduce(x)
            same(x, torch.full((i + 1,), size * (size - 1) / 2 + size * turn))


def _no_deadlock(rank: int) -> None:
    """A call that is asynchronous must not wait for a rank that waits for what this one does next."""
    x = torch.ones(100_000)
    if rank == 0:
        work = dist.all_reduce(x, async_op=True)
        assert not work.is_completed()
        dist.send(torch.tensor([5]), 1)
        work.wait()
    else:
        if rank == 1:
            told = torch.zeros(1, dtype=torch.int64)
            dist.recv(told, 0)
            assert told.item() == 5
        dist.all_reduce(x)
    same(x, torch.full_like(x, float(dist.get_world_size())))


def _messages(rank: int, size: int) -> None:
    last = size - 1
    if rank == 0:
        x = torch.arange(50_000.0)
        dist.send(x, last, tag=1)
        x.fill_(-1)  # after a send the tensor is the sender's again
        dist.send(torch.ones(3, dtype=torch.bfloat16), last, tag=2)
        dist.send(torch.arange(8).reshape(2, 4).t(), last, tag=2)
        dist.send(torch.empty(0), last)
        dist.send(torch.ones(3), last, tag=9)
    elif rank == last:
        half = torch.zeros(3, dtype=torch.bfloat16)
        dist.recv(half, 0, tag=2)  # tags may be received in another order
        same(half, torch.ones(3, dtype=torch.bfloat16))
        wide = torch.zeros(4, 2, dtype=torch.int64)
        dist.recv(wide, 0, tag=2)
        same(wide, torch.arange(8).reshape(2, 4).t())
        x = torch.zeros(50_000)
        works = [dist.irecv(torch.empty(0), 0), dist.irecv(x, 0, tag=1)]
        for work in works:
            work.wait()
        same(x, torch.arange(50_000.0))
        with pytest.raises(ValueError, match=r"12 bytes, and recv was called with a tensor of 8"):
            dist.recv(torch.zeros(2), 0, tag=9)
    dist.barrier()
    if rank == 0:
        sources = [dist.recv(torch.zeros(1)) for _ in range(size - 1)]
        assert sorted(sources) == list(range(1, size))
    else:
        dist.send(torch.full((1,), float(rank)), 0)
    dist.barrier()
    there, back = torch.full((1000,), float(rank)), torch.empty(1000)
    ring = [dist.P2POp(dist.isend, there, (rank + 1) % size), dist.P2POp(dist.irecv, back, (rank - 1) % size)]
    for work in dist.batch_isend_irecv(ring):
        work.wait()
    same(back, torch.full((1000,), float((rank - 1) % size)))
    work = dist.irecv(back, (rank - 1) % size)
    assert work is not None
    future = work.get_future()
    dist.isend(there, (rank + 1) % size)
    assert future.wait() is not None
    dist.barrier()


def _mistakes(rank: int, size: int) -> None:
    call = dist.all_reduce if rank > 0 else functools.partial(dist.broadcast, src=0)
    with pytest.raises(errors.CollectiveMismatchError, match=r"rank 0: broadcast.*rank.* 1.*all_reduce"):
        call(torch.ones(3))
    with pytest.raises(NotImplementedError, match=r"cpu:forklift,meta:nccl"):
        dist.all_reduce(torch.ones(3, device="meta"))
    with pytest.raises(NotImplementedError, match="to_dense"):
        dist.all_reduce(torch.ones(3).to_sparse())
    with pytest.raises(ValueError, match="tensor 1 of the list is float32"):
        dist.all_gather([torch.ones(3), torch.ones(4), *(torch.ones(3),) * (size - 2)], torch.ones(3))
    with pytest.raises(ValueError, match="no reduction mean of int64"):
        dist.all_reduce(torch.ones(3, dtype=torch.int64), dist.ReduceOp.AVG)
    x = torch.ones(2)
    dist.all_reduce(x)
    same(x, torch.full((2,), float(size)))


def _late(rank: int, size: int) -> None:
    """The last rank does not come: the others say so. Other groups are not concerned."""
    group = dist.new_group(timeout=timedelta(seconds=0.5))
    if rank < size - 1:
        # Of several that wait, one finds that the time is over, and the others that it has.
        first = rf"after 0\.5 s rank {size - 1} had not made the call"
        begun = time.monotonic()
        with pytest.raises(
            RuntimeError, match=first if size == 2 else first + "|longer than it wanted"
        ) as error:
            dist.all_reduce(torch.ones(3), group=group)
        assert 0.4 < time.monotonic() - begun < 20
        assert isinstance(error.value, dist.DistBackendError | errors.BrokenGroupError)
    dist.barrier()
    if rank == size - 1:
        with pytest.raises(errors.BrokenGroupError):
            dist.all_reduce(torch.ones(3), group=group)


def another_device(rank: int, size: int, store: str) -> None:
    """Tensors of another device go to the other backend of the group."""
    import torch.testing._internal.distributed.fake_pg  # registers a backend that does nothing

    begin(rank, size, store, "cpu:forklift,meta:fake")
    x = torch.full((3,), float(rank))
    dist.all_reduce(torch.ones(3, device="meta"))
    dist.all_reduce(x)
    same(x, torch.full((3,), 1.0))
    dist.broadcast(torch.ones(3, device="meta"), 0)
    with pytest.raises(NotImplementedError, match="to_dense"):
        dist.all_reduce(torch.ones(3).to_sparse())
    dist.destroy_process_group()


# --- deaths


def _repeat(action: Callable[[], object]) -> None:
    while True:
        action()


def lose_a_rank(rank: int, size: int, store: str, told: Any) -> None:
    """Rank 1 is killed in the middle of an all_reduce."""
    begin(rank, size, store)
    x = torch.ones(2_000_000)
    if rank == 1:

        def end() -> None:
            told.put((rank, time.monotonic()))
            os.kill(os.getpid(), signal.SIGKILL)

        threading.Timer(0.2, end).start()
    with pytest.raises(errors.PeerDiedError, match=r"rank 1 \(pid \d+\)"):
        _repeat(lambda: dist.all_reduce(x))
    told.put((rank, time.monotonic()))
    with pytest.raises(errors.PeerDiedError):
        dist.all_reduce(x, async_op=True).wait()
    with pytest.raises(errors.PeerDiedError, match="rank 1"):
        dist.recv(x, 1)
    with pytest.raises(errors.PeerDiedError, match="rank 1"):
        dist.send(x, 1)
    dist.destroy_process_group()
    # Those that are left go on without it.
    begin(rank // 2, 2, store + "-second")
    y = torch.ones(3)
    dist.all_reduce(y)
    same(y, torch.full((3,), 2.0))
    dist.destroy_process_group()


# --- training


def _losses(rank: int, group: Any, steps: int = 6) -> list[float]:
    torch.manual_seed(17)
    layers = [torch.nn.Linear(32, 300), torch.nn.BatchNorm1d(300), torch.nn.ReLU(), torch.nn.Linear(300, 4)]
    network = DistributedDataParallel(torch.nn.Sequential(*layers), process_group=group, bucket_cap_mb=0.02)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    chance = torch.Generator().manual_seed(rank)
    losses = []
    for _ in range(steps):
        x = torch.randn(16, 32, generator=chance)
        loss = torch.nn.functional.cross_entropy(network(x), (x[:, :4]).argmax(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    weights = torch.cat([each.detach().flatten() for each in network.parameters()])
    everyones = [torch.empty_like(weights) for _ in range(dist.get_world_size())]
    dist.all_gather(everyones, weights)
    for each in everyones:
        same(each, weights)
    return losses


def train(rank: int, size: int, store: str) -> None:
    """The losses of Gloo, to rounding, and the same weights at all ranks."""
    begin(rank, size, store)
    assert dist.get_backend() == "forklift"
    gloo = dist.new_group(backend="gloo")
    ours = _losses(rank, None)
    torch.testing.assert_close(torch.tensor(ours), torch.tensor(_losses(rank, gloo)), rtol=1e-4, atol=1e-4)
    assert ours[-1] < ours[0]
    dist.destroy_process_group()


def train_and_die(rank: int, size: int, store: str, told: Any) -> None:
    begin(rank, size, store)
    network = DistributedDataParallel(torch.nn.Linear(50, 50))

    def step() -> None:
        network(torch.ones(4, 50)).sum().backward()

    for _ in range(5):
        step()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(RuntimeError, match=r"rank 1 \(pid \d+\)"):
        _repeat(step)
    told.put(rank)


# --- several machines


def without_mpi(rank: int, size: int, store: str) -> None:
    for name in ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"):
        os.environ.pop(name, None)
    with pytest.raises(dist.DistBackendError, match=r"on 2 machines.*: 0; 1\. .*mpirun.*mpi4py"):
        begin(rank, size, store)


def large_reductions(rank: int, size: int) -> None:
    """Of so much that each rank takes a share, with a rest; the second time from shared memory."""
    count = (1 << 20) + 3
    base = torch.arange(count) % 5
    for dtype in (torch.float32, torch.int64, torch.bfloat16, torch.bool, torch.complex64):
        everyones = [((base + each) % 5).to(dtype) for each in range(size)]
        total = torch.stack(everyones).sum(0)
        x = everyones[rank].clone().view(1, count)
        for _ in range(2):
            x.copy_(everyones[rank].view(1, count))
            dist.all_reduce(x)
            same(x, total.to(dtype).view(1, count))
        if dtype is not torch.complex64:
            x.copy_(everyones[rank].view(1, count))
            dist.all_reduce(x, dist.ReduceOp.MAX)
            same(
                x,
                torch.stack([each.to(torch.float64) for each in everyones]).amax(0).to(dtype).view(1, count),
            )
    x = base + rank
    dist.all_reduce(x, dist.ReduceOp.BXOR)
    wanted = base.clone()
    for each in range(1, size):
        wanted = wanted ^ (base + each)
    same(x, wanted)


def between_machines(store: str) -> None:
    """A rank that mpirun has started; the last is on another machine than the first."""
    rank, size = (int(os.environ[f"OMPI_COMM_WORLD_{name}"]) for name in ("RANK", "SIZE"))
    begin(rank, size, store)
    cases = Cases(None, seed=size)
    for dtype in (torch.float32, torch.int64, torch.bfloat16, torch.bool):
        cases.reductions(dtype, exact=not dtype.is_floating_point)
    cases.scattered(torch.int32)
    cases.copies(torch.float32)
    cases.exchanges(torch.float64)
    odd_memory(rank, size, moved=False)
    objects(rank, size)
    coalesced(rank, size)
    subgroups(rank, size)
    xs = [torch.full((n,), float(rank)) for n in (3, 100_000)]
    for work in [dist.all_reduce(x, async_op=True) for x in xs]:
        work.wait()
    for x in xs:
        same(x, torch.full_like(x, size * (size - 1) / 2))
    large_reductions(rank, size)
    other = 2 if rank < 2 else 0
    with pytest.raises(errors.NotAcrossNodesError, match=f"rank {other} is on another machine"):
        dist.send(x, other)
    dist.barrier()
    dist.destroy_process_group()
    print("all right", flush=True)


if __name__ == "__main__":
    between_machines(sys.argv[1])

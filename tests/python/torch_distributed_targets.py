"""What the ranks of the tests of torch.distributed's backend run; a fresh interpreter imports it by name."""

from __future__ import annotations

import functools
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import forklift.adapters.torch.distributed  # noqa: F401  # registers the backend
import pytest
import torch
import torch.distributed as dist
from forklift import errors
from torch.nn.parallel import DistributedDataParallel

PATIENCE = timedelta(seconds=60)


def begin(rank: int, size: int, store: str, backend: str = "forklift") -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        backend, init_method=f"file://{store}", rank=rank, world_size=size, timeout=PATIENCE
    )


# --- values


def _random(shape: tuple[int, ...], dtype: torch.dtype, seed: int) -> torch.Tensor:
    made = torch.Generator().manual_seed(seed)
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=made).bool()
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(shape, generator=made, dtype=torch.float64).to(dtype)
    return torch.randint(0, 5, shape, generator=made).to(dtype)


def _in_order(xs: list[torch.Tensor], op: str) -> torch.Tensor:
    """The reference: x0 op x1 op x2 ..., with halves accumulated in float32, as the collectives promise."""
    narrow = xs[0].dtype in (torch.float16, torch.bfloat16)
    total = xs[0].float() if narrow else xs[0].clone()
    step: dict[str, Callable[[Any, Any], Any]] = {
        "SUM": torch.add,
        "AVG": torch.add,
        "PRODUCT": torch.mul,
        "MIN": torch.minimum,
        "MAX": torch.maximum,
        "BAND": torch.bitwise_and,
        "BOR": torch.bitwise_or,
        "BXOR": torch.bitwise_xor,
    }
    if xs[0].dtype == torch.bool:
        step |= {"SUM": torch.logical_or, "PRODUCT": torch.logical_and}
    for x in xs[1:]:
        total = step[op](total, x.float() if narrow else x)
    if op == "AVG":
        total = total / len(xs)
    return total.to(xs[0].dtype)


_ARITHMETIC = (
    torch.float32,
    torch.float64,
    torch.int64,
    torch.int32,
    torch.uint8,
    torch.float16,
    torch.bfloat16,
)
_NOT_GLOOS = ("AVG", "BAND", "BOR", "BXOR")


def _ops_of(dtype: torch.dtype) -> list[str]:
    if dtype == torch.bool:
        return ["SUM", "PRODUCT", "MIN", "MAX", "BAND", "BOR"]
    if dtype.is_complex:
        return ["SUM"]
    bitwise = [] if dtype.is_floating_point else ["BAND", "BOR", "BXOR"]
    return ["SUM", "PRODUCT", "MIN", "MAX", *(["AVG"] if dtype.is_floating_point else bitwise)]


def _same(found: torch.Tensor, wanted: torch.Tensor, exact: bool = True) -> None:
    torch.testing.assert_close(found, wanted, **({"rtol": 0, "atol": 0} if exact else {}))


class Cases:
    """Random cases, the same at all ranks: every rank can make every rank's tensors."""

    def __init__(self, gloo: Any, seed: int) -> None:
        self.gloo = gloo
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.chance = random.Random(seed)

    def shape(self) -> tuple[int, ...]:
        return tuple(self.chance.choice([0, 1, 3, 40, 70]) for _ in range(self.chance.randint(0, 3)))

    def inputs(self, shape: tuple[int, ...], dtype: torch.dtype) -> list[torch.Tensor]:
        seed = self.chance.randrange(1 << 30)
        return [_random(shape, dtype, seed + rank) for rank in range(self.size)]

    def reductions(self, dtype: torch.dtype, exact: bool = True) -> None:
        for name in _ops_of(dtype):
            op = getattr(dist.ReduceOp, name)
            xs = self.inputs(self.shape(), dtype)
            wanted = _in_order(xs, name)
            mine = xs[self.rank].clone()
            dist.all_reduce(mine, op)
            # The mean is the sum times 1/n.
            _same(mine, wanted, exact=exact and name != "AVG")
            theirs = xs[self.rank].clone()
            if self.gloo is not None and name not in _NOT_GLOOS and dtype in _ARITHMETIC:
                dist.all_reduce(theirs, op, group=self.gloo)
                # Gloo adds in another order, and rounds halves after each addition.
                near = 0.05 if dtype.itemsize == 2 else 1e-5 if dtype.is_floating_point else 0
                torch.testing.assert_close(mine, theirs, rtol=near, atol=near)
            root = self.chance.randrange(self.size)
            mine = xs[self.rank].clone()
            dist.reduce(mine, root, op)
            _same(mine, wanted if self.rank == root else xs[self.rank], exact=exact and name != "AVG")

    def scattered(self, dtype: torch.dtype) -> None:
        parts = [self.inputs((6, 5), dtype) for _ in range(self.size)]  # [part][rank]
        mine = [part[self.rank] for part in parts]
        out = torch.empty(6, 5, dtype=dtype)
        wanted = _in_order(parts[self.rank], "SUM")
        dist.reduce_scatter(out, [part.clone() for part in mine])
        _same(out, wanted)
        out.zero_()
        dist.reduce_scatter_tensor(out, torch.cat(mine))
        _same(out, wanted)

    def copies(self, dtype: torch.dtype) -> None:
        root, shape = self.chance.randrange(self.size), self.shape()
        xs = self.inputs(shape, dtype)
        x = xs[self.rank].clone()
        dist.broadcast(x, root)
        _same(x, xs[root])
        outs = [torch.empty(shape, dtype=dtype) for _ in xs]
        dist.all_gather(outs, xs[self.rank])
        for out, wanted in zip(outs, xs, strict=True):
            _same(out, wanted)
        if shape:
            whole = torch.empty((shape[0] * self.size, *shape[1:]), dtype=dtype)
            dist.all_gather_into_tensor(whole, xs[self.rank])
            _same(whole, torch.cat(xs))
        outs = [torch.empty(shape, dtype=dtype) for _ in xs] if self.rank == root else []
        dist.gather(xs[self.rank], outs or None, root)
        for out, wanted in zip(outs, xs, strict=False):
            _same(out, wanted)
        x = torch.empty(shape, dtype=dtype)
        dist.scatter(x, [each.clone() for each in xs] if self.rank == root else None, root)
        _same(x, xs[self.rank])

    def exchanges(self, dtype: torch.dtype) -> None:
        size, rank = self.size, self.rank
        for shape_of in (lambda i, j: (4, 3), lambda i, j: (2 * i + j, 3)):
            seeds = self.chance.randrange(1 << 20)
            rows = [
                [_random(shape_of(i, j), dtype, seeds + size * i + j) for j in range(size)]
                for i in range(size)
            ]
            outs = [torch.empty_like(rows[i][rank]) for i in range(size)]
            dist.all_to_all(outs, rows[rank])
            for i, out in enumerate(outs):
                _same(out, rows[i][rank])
            out = torch.empty(sum(len(rows[i][rank]) for i in range(size)), 3, dtype=dtype)
            sizes = [len(rows[i][rank]) for i in range(size)], [len(each) for each in rows[rank]]
            dist.all_to_all_single(out, torch.cat(rows[rank]), *sizes)
            _same(out, torch.cat([rows[i][rank] for i in range(size)]))
        x = torch.arange(2 * size).to(dtype) + 100 * rank
        out = torch.empty_like(x)
        dist.all_to_all_single(out, x)
        wanted = [torch.arange(2 * size)[2 * rank : 2 * rank + 2].to(dtype) + 100 * i for i in range(size)]
        _same(out, torch.cat(wanted))


def values(rank: int, size: int, store: str) -> None:
    begin(rank, size, store)
    cases = Cases(dist.new_group(backend="gloo"), seed=size)
    for dtype in (*_ARITHMETIC, torch.bool, torch.complex64, torch.int8):
        cases.reductions(dtype)
        cases.copies(dtype)
        if dtype != torch.bool:
            cases.scattered(dtype)
        cases.exchanges(dtype)
    _odd_memory(rank, size)
    _objects(rank, size)
    _coalesced(rank, size)
    _subgroups(rank, size)
    dist.destroy_process_group()


def _odd_memory(rank: int, size: int, moved: bool = True) -> None:
    """Gaps, gradients, bytes of types without arithmetic, storages that are moved when they come again."""
    base = torch.full((6, 8), float(rank))
    dist.all_reduce(base[:, ::2])
    _same(base[:, ::2], torch.full((6, 4), sum(range(size)) * 1.0))
    _same(base[:, 1::2], torch.full((6, 4), float(rank)))
    outs = [torch.zeros(3, 8)[:, ::2] for _ in range(size)]
    dist.all_gather(outs, torch.full((4, 3), float(rank)).t().contiguous())
    _same(torch.stack(outs), torch.arange(size * 1.0)[:, None, None].expand(size, 3, 4))
    parameter = torch.nn.Parameter(torch.full((3,), float(rank)))
    dist.broadcast(parameter, 1)
    _same(parameter.data, torch.ones(3))
    small = torch.full((7,), float(rank + 1)).to(torch.float8_e4m3fn)
    dist.broadcast(small, 1)
    _same(small.float(), torch.full((7,), 2.0))
    large = torch.zeros(100_000)
    view = large[5:9]
    for _ in range(4):
        large.fill_(rank)
        dist.all_reduce(large)
        _same(large, torch.full((100_000,), sum(range(size)) * 1.0))
    assert large.is_shared() or not moved
    assert view.data_ptr() == large.data_ptr() + 20


def _objects(rank: int, size: int) -> None:
    told: list[Any] = [None] * size
    dist.all_gather_object(told, {"rank": rank, "text": "x" * 1000 * rank})
    assert [each["rank"] for each in told] == list(range(size))
    box: list[Any] = [rank]
    dist.broadcast_object_list(box, src=1)
    assert box == [1]


def _coalesced(rank: int, size: int) -> None:
    xs = [torch.full((n,), float(rank)) for n in (3, 5000)]
    dist.all_reduce_coalesced(xs)
    for x in xs:
        _same(x, torch.full_like(x, sum(range(size)) * 1.0))
    group = dist.group.WORLD
    assert group is not None
    outs = [torch.empty(size * n) for n in (2, 4)]
    group.allgather_into_tensor_coalesced(outs, [torch.full((n,), float(rank)) for n in (2, 4)]).wait()
    _same(outs[1], torch.arange(size * 1.0).repeat_interleave(4))


def _subgroups(rank: int, size: int) -> None:
    front = dist.new_group([0, 1])
    back = dist.new_group(list(range(1, size))[::-1])
    if rank < 2:
        x = torch.ones(5)
        dist.all_reduce(x, group=front)
        _same(x, torch.full((5,), 2.0))
    if rank > 0:
        x = torch.full((5,), float(rank))
        dist.broadcast(x, src=size - 1, group=back)
        _same(x, torch.full((5,), size - 1.0))
        dist.destroy_process_group(back)
    dist.barrier()


# --- the order of calls, messages, mistakes


def calls(rank: int, size: int, store: str) -> None:
    begin(rank, size, store)
    _asynchronous(rank, size)
    _no_deadlock(rank)
    _messages(rank, size)
    _mistakes(rank, size)
    _late(rank, size)
    dist.destroy_process_group()
    with pytest.raises(ValueError, match="has not been initialized"):
        dist.barrier()


def _asynchronous(rank: int, size: int) -> None:
    total = sum(range(size)) * 1.0
    xs = [torch.full((n,), float(rank)) for n in (4, 30_000, 1, 200_000, 70)]
    works = [dist.all_reduce(x, async_op=True) for x in xs]
    after = torch.full((3,), float(rank))
    dist.all_reduce(after)  # waits for all before it
    _same(after, torch.full((3,), total))
    for work, x in zip(reversed(works), reversed(xs), strict=True):
        assert work.is_completed()
        assert work.wait()
        _same(x, torch.full_like(x, total))
    work = dist.all_reduce(xs[0], async_op=True)
    doubled = work.get_future().then(lambda future: future.value()[0] * 2)
    _same(doubled.wait(), torch.full((4,), total * size * 2))
    work = dist.barrier(async_op=True)
    assert work.wait()


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
    _same(x, torch.full_like(x, float(dist.get_world_size())))


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
        _same(half, torch.ones(3, dtype=torch.bfloat16))
        wide = torch.zeros(4, 2, dtype=torch.int64)
        dist.recv(wide, 0, tag=2)
        _same(wide, torch.arange(8).reshape(2, 4).t())
        x = torch.zeros(50_000)
        works = [dist.irecv(torch.empty(0), 0), dist.irecv(x, 0, tag=1)]
        for work in works:
            work.wait()
        _same(x, torch.arange(50_000.0))
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
    _same(back, torch.full((1000,), float((rank - 1) % size)))
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
    _same(x, torch.full((2,), float(size)))


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
    _same(y, torch.full((3,), 2.0))
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
        _same(each, weights)
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


def between_machines(store: str) -> None:
    """A rank that mpirun has started: of three, the first two are on one machine."""
    rank, size = (int(os.environ[f"OMPI_COMM_WORLD_{name}"]) for name in ("RANK", "SIZE"))
    begin(rank, size, store)
    cases = Cases(None, seed=size)
    for dtype in (torch.float32, torch.int64, torch.bfloat16, torch.bool):
        cases.reductions(dtype, exact=not dtype.is_floating_point)
    cases.scattered(torch.int32)
    cases.copies(torch.float32)
    cases.exchanges(torch.float64)
    _odd_memory(rank, size, moved=False)
    _objects(rank, size)
    _coalesced(rank, size)
    _subgroups(rank, size)
    xs = [torch.full((n,), float(rank)) for n in (3, 100_000)]
    for work in [dist.all_reduce(x, async_op=True) for x in xs]:
        work.wait()
    for x in xs:
        _same(x, torch.full_like(x, 3.0))
    other = 2 if rank < 2 else 0
    with pytest.raises(errors.NotAcrossNodesError, match=f"rank {other} is on another machine"):
        dist.send(x, other)
    dist.barrier()
    dist.destroy_process_group()
    print("all right", flush=True)


if __name__ == "__main__":
    between_machines(sys.argv[1])

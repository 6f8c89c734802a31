"""Random cases for every collective of torch.distributed's backend, beside a reference and beside Gloo."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import forklift.adapters.torch.distributed  # noqa: F401  # registers the backend
import torch
import torch.distributed as dist

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


def same(found: torch.Tensor, wanted: torch.Tensor, exact: bool = True) -> None:
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
            same(mine, wanted, exact=exact and name != "AVG")
            theirs = xs[self.rank].clone()
            if self.gloo is not None and name not in _NOT_GLOOS and dtype in _ARITHMETIC:
                dist.all_reduce(theirs, op, group=self.gloo)
                # Gloo adds in another order, and rounds halves after each addition.
                near = 0.05 if dtype.itemsize == 2 else 1e-5 if dtype.is_floating_point else 0
                torch.testing.assert_close(mine, theirs, rtol=near, atol=near)
            root = self.chance.randrange(self.size)
            mine = xs[self.rank].clone()
            dist.reduce(mine, root, op)
            same(mine, wanted if self.rank == root else xs[self.rank], exact=exact and name != "AVG")

    def scattered(self, dtype: torch.dtype) -> None:
        parts = [self.inputs((6, 5), dtype) for _ in range(self.size)]  # [part][rank]
        mine = [part[self.rank] for part in parts]
        out = torch.empty(6, 5, dtype=dtype)
        wanted = _in_order(parts[self.rank], "SUM")
        dist.reduce_scatter(out, [part.clone() for part in mine])
        same(out, wanted)
        out.zero_()
        dist.reduce_scatter_tensor(out, torch.cat(mine))
        same(out, wanted)

    def copies(self, dtype: torch.dtype) -> None:
        root, shape = self.chance.randrange(self.size), self.shape()
        xs = self.inputs(shape, dtype)
        x = xs[self.rank].clone()
        dist.broadcast(x, root)
        same(x, xs[root])
        outs = [torch.empty(shape, dtype=dtype) for _ in xs]
        dist.all_gather(outs, xs[self.rank])
        for out, wanted in zip(outs, xs, strict=True):
            same(out, wanted)
        if shape:
            whole = torch.empty((shape[0] * self.size, *shape[1:]), dtype=dtype)
            dist.all_gather_into_tensor(whole, xs[self.rank])
            same(whole, torch.cat(xs))
        outs = [torch.empty(shape, dtype=dtype) for _ in xs] if self.rank == root else []
        dist.gather(xs[self.rank], outs or None, root)
        for out, wanted in zip(outs, xs, strict=False):
            same(out, wanted)
        x = torch.empty(shape, dtype=dtype)
        dist.scatter(x, [each.clone() for each in xs] if self.rank == root else None, root)
        same(x, xs[self.rank])

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
                same(out, rows[i][rank])
            out = torch.empty(sum(len(rows[i][rank]) for i in range(size)), 3, dtype=dtype)
            sizes = [len(rows[i][rank]) for i in range(size)], [len(each) for each in rows[rank]]
            dist.all_to_all_single(out, torch.cat(rows[rank]), *sizes)
            same(out, torch.cat([rows[i][rank] for i in range(size)]))
        x = torch.arange(2 * size).to(dtype) + 100 * rank
        out = torch.empty_like(x)
        dist.all_to_all_single(out, x)
        wanted = [torch.arange(2 * size)[2 * rank : 2 * rank + 2].to(dtype) + 100 * i for i in range(size)]
        same(out, torch.cat(wanted))


def values(rank: int, size: int, store: str) -> None:
    begin(rank, size, store)
    cases = Cases(dist.new_group(backend="gloo"), seed=size)
    for dtype in (*_ARITHMETIC, torch.bool, torch.complex64, torch.int8):
        cases.reductions(dtype)
        cases.copies(dtype)
        if dtype != torch.bool:
            cases.scattered(dtype)
        cases.exchanges(dtype)
    odd_memory(rank, size)
    objects(rank, size)
    coalesced(rank, size)
    subgroups(rank, size)
    dist.destroy_process_group()


def odd_memory(rank: int, size: int, moved: bool = True) -> None:
    """Gaps, gradients, bytes of types without arithmetic, storages that are moved when they come again."""
    base = torch.full((6, 8), float(rank))
    dist.all_reduce(base[:, ::2])
    same(base[:, ::2], torch.full((6, 4), sum(range(size)) * 1.0))
    same(base[:, 1::2], torch.full((6, 4), float(rank)))
    outs = [torch.zeros(3, 8)[:, ::2] for _ in range(size)]
    dist.all_gather(outs, torch.full((4, 3), float(rank)).t().contiguous())
    same(torch.stack(outs), torch.arange(size * 1.0)[:, None, None].expand(size, 3, 4))
    parameter = torch.nn.Parameter(torch.full((3,), float(rank)))
    dist.broadcast(parameter, 1)
    same(parameter.data, torch.ones(3))
    small = torch.full((7,), float(rank + 1)).to(torch.float8_e4m3fn)
    dist.broadcast(small, 1)
    same(small.float(), torch.full((7,), 2.0))
    large = torch.zeros(100_000)
    view = large[5:9]
    for _ in range(4):
        large.fill_(rank)
        dist.all_reduce(large)
        same(large, torch.full((100_000,), sum(range(size)) * 1.0))
    assert large.is_shared() or not moved
    assert view.data_ptr() == large.data_ptr() + 20


def objects(rank: int, size: int) -> None:
    told: list[Any] = [None] * size
    dist.all_gather_object(told, {"rank": rank, "text": "x" * 1000 * rank})
    assert [each["rank"] for each in told] == list(range(size))
    box: list[Any] = [rank]
    dist.broadcast_object_list(box, src=1)
    assert box == [1]


def coalesced(rank: int, size: int) -> None:
    xs = [torch.full((n,), float(rank)) for n in (3, 5000)]
    dist.all_reduce_coalesced(xs)
    for x in xs:
        same(x, torch.full_like(x, sum(range(size)) * 1.0))
    group = dist.group.WORLD
    assert group is not None
    outs = [torch.empty(size * n) for n in (2, 4)]
    group.allgather_into_tensor_coalesced(outs, [torch.full((n,), float(rank)) for n in (2, 4)]).wait()
    same(outs[1], torch.arange(size * 1.0).repeat_interleave(4))


def subgroups(rank: int, size: int) -> None:
    front = dist.new_group([0, 1])
    back = dist.new_group(list(range(1, size))[::-1])
    if rank < 2:
        x = torch.ones(5)
        dist.all_reduce(x, group=front)
        same(x, torch.full((5,), 2.0))
    if rank > 0:
        x = torch.full((5,), float(rank))
        dist.broadcast(x, src=size - 1, group=back)
        same(x, torch.full((5,), size - 1.0))
        dist.destroy_process_group(back)
    dist.barrier()

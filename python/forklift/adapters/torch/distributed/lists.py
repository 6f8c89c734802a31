"""Lists of tensors as one tensor without gaps, and back.

with spread(outs) as out: ...        # fills `out`, whose parts are then in outs
x = collect(parts)
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from forklift.adapters.torch.distributed.ranks import Collectives

__all__ = ["collect", "equal_parts", "exchange", "flat", "spread"]


def equal_parts(call: str, parts: Sequence[Any], whole: Any, size: int) -> None:
    """ValueError: not one part of each rank, of the same dtype and number of elements."""
    if len(parts) != size:
        raise ValueError(f"{call}: a list of {len(parts)} tensors in a group of {size} ranks")
    for index, part in enumerate(parts):
        if part.dtype != whole.dtype or part.numel() != whole.numel():
            raise ValueError(
                f"{call}: tensor {index} of the list is {_text(part)}, and the other argument is "
                f"{_text(whole)}; all have to be equal"
            )


def _text(x: Any) -> str:
    return f"{str(x.dtype).removeprefix('torch.')}{tuple(x.shape)}"


def flat(x: Any) -> Any:
    """All elements in one dimension; a copy if there are gaps."""
    return x.detach().reshape(-1)


def collect(parts: Sequence[Any]) -> Any:
    """The parts one after the other: the memory itself where they lie so, otherwise a copy."""
    return _together(parts) if (whole := _over(parts)) is None else whole


def _together(parts: Sequence[Any]) -> Any:
    return torch.cat([flat(part) for part in parts])


def _over(parts: Sequence[Any]) -> Any:
    """A tensor over parts that lie one after the other. None: they do not."""
    first = parts[0]
    at: int = first.data_ptr()
    for part in parts:
        if not part.is_contiguous() or part.data_ptr() != at or part.dtype != first.dtype:
            return None
        at += part.numel() * part.element_size()
    count = sum(part.numel() for part in parts)
    storage = first.untyped_storage()
    if at > storage.data_ptr() + storage.nbytes():
        return None  # neighbours by chance
    return first.detach().as_strided((count,), (1,))


@contextlib.contextmanager
def spread(outs: Sequence[Any]) -> Iterator[Any]:
    """A tensor without gaps for the elements of all outs. None for an empty list."""
    if not outs:
        yield None
        return
    whole = _over(outs)
    if whole is not None:
        yield whole
        return
    whole = torch.empty(sum(out.numel() for out in outs), dtype=outs[0].dtype)
    yield whole
    at = 0
    for out in outs:
        out.detach().copy_(whole[at : at + out.numel()].view(out.shape))
        at += out.numel()


def exchange(ranks: Collectives, parts: Sequence[Any], outs: Sequence[Any], timeout: float) -> None:
    """all_to_all of parts that may differ in size: each is filled up to the largest one of all.

    ValueError: another rank sends more or less than this one expects of it.
    """
    size = ranks.size
    for name, tensors in (("inputs", parts), ("outputs", outs)):
        if len(tensors) != size:
            raise ValueError(f"all_to_all: {len(tensors)} {name} in a group of {size} ranks")
    counts = torch.tensor([part.numel() for part in parts])
    table = torch.empty(size * size, dtype=torch.int64)
    ranks.all_gather(counts, table, timeout)
    table = table.view(size, size)
    largest = int(table.max())
    wrong = [rank for rank in range(size) if table[rank, ranks.rank] != outs[rank].numel()]
    dtype = parts[0].dtype
    if int(table.min()) == largest and not wrong:
        with spread(outs) as whole:
            ranks.all_to_all(collect(parts), whole, timeout)
        return
    x = torch.zeros(size, largest, dtype=dtype)
    for rank, part in enumerate(parts):
        x[rank, : part.numel()] = flat(part)
    whole = torch.empty_like(x)
    ranks.all_to_all(x, whole, timeout)
    if wrong:
        raise ValueError(
            f"all_to_all: rank {wrong[0]} sends {int(table[wrong[0], ranks.rank])} elements, and this rank "
            f"({ranks.rank}) expects {outs[wrong[0]].numel()} of it"
        )
    for rank, out in enumerate(outs):
        out.detach().copy_(whole[rank, : out.numel()].view(out.shape))

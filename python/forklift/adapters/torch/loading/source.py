"""The indices of each batch: from the loader's samplers, at the moments at which torch asks them.

Samplers may draw from a random generator whenever they are asked, so to keep torch's order to the last bit
they are asked as often and as early as torch asks them. Only where nobody can tell, for torch's own
sequential samplers and for iterable datasets, are the indices computed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from torch.utils.data import BatchSampler, SequentialSampler
from torch.utils.data.dataloader import _InfiniteConstantSampler

__all__ = ["begun", "indices", "most_indices"]

_FEW = 64


def indices(sampler: Any, asked: Iterator[Any]) -> Iterator[Any]:
    """The index of each batch of an epoch. A range stands for a list; `asked` is the sampler's iterator."""
    if type(sampler) is not BatchSampler:
        return asked
    size = sampler.batch_size
    if type(sampler.sampler) is _InfiniteConstantSampler:
        return itertools.repeat(range(size))  # of which the dataset looks at the length alone
    if type(sampler.sampler) is SequentialSampler:
        length = len(sampler.sampler.data_source)
        end = length - length % size if sampler.drop_last else length
        return (range(at, min(at + size, end)) for at in range(0, end, size))
    return asked


def begun(source: Iterator[Any]) -> Iterator[Any]:
    """The same indices, the first of which is asked for now: many samplers draw all their numbers then."""
    return itertools.chain(list(itertools.islice(source, 1)), source)


def most_indices(sampler: Any) -> int:
    """How many indices there may be in a batch. Batches that have more travel as messages."""
    size = getattr(sampler, "batch_size", None)
    return size if type(size) is int and size > 0 else _FEW

"""Functions that the processes of test_torch_storms run until they are killed."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

STOP = "stop, please"


def _scalar(torch: Any, number: float) -> Any:
    return torch.tensor(number)


def _small(torch: Any, number: float) -> Any:
    return torch.full((1_000,), number)


def _large(torch: Any, number: float) -> Any:
    return torch.full((300, 1_000), number)


def _views(torch: Any, number: float) -> Any:
    whole = torch.full((64, 64), number)
    return [whole, whole[1:-1, ::2], whole.untyped_storage()]


def _state(torch: Any, number: float) -> Any:
    return {f"layer.{i}": torch.nn.Parameter(torch.full((40, 50), number)) for i in range(5)}


def _sparse(torch: Any, number: float) -> Any:
    return torch.full((8, 8), number).to_sparse()


KINDS: tuple[Callable[[Any, float], Any], ...] = (_scalar, _small, _large, _views, _state, _sparse)


def elements(value: Any) -> set[float]:
    """The values of all elements: one number, whatever the kind."""
    import torch

    if isinstance(value, torch.UntypedStorage):
        value = torch.empty(0).set_(value)
    if isinstance(value, torch.Tensor):
        dense = value.detach().to_dense()
        return {float(dense.min()), float(dense.max())}
    items = value.values() if isinstance(value, dict) else value
    return set().union(*(elements(item) for item in items))


def produce(out: Any, counts: Any, place: int, seed: int) -> None:
    """Put tensors for ever. ``counts[place]`` is how many put has returned for."""
    import torch

    torch.set_num_threads(1)  # OpenMP does not survive a fork
    turn = 0
    while True:
        turn += 1
        number = float(seed * 10_000 + turn)
        out.put((number, KINDS[turn % len(KINDS)](torch, number)))
        counts[place] = turn


def pass_on(source: Any, out: Any) -> None:
    """Receive, keep the last few, and send on."""
    import torch

    torch.set_num_threads(1)
    kept: list[Any] = []
    while True:
        number, value = source.get()
        if elements(value) != {number}:
            out.put((number, "damaged"))
            os._exit(1)
        kept = [*kept[-7:], value]
        out.put((number, value))
        del value

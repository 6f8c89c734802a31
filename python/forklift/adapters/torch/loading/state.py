"""What ``state_dict()`` of a loader holds: where an epoch stands, and the random states that lead there.

The dictionary has numbers, lists and tensors only, for ``torch.save`` and ``torch.load(weights_only=True)``.
docs/semantics.md says what is restored and what is not.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from forklift.adapters.torch.loading import randomness

__all__ = [
    "VERSION",
    "as_bytes",
    "as_tensor",
    "between_epochs",
    "check",
    "generators",
    "opened_again",
    "opening",
    "restore_generators",
]

VERSION = 1


def as_tensor(state: bytes | None) -> Any:
    return None if state is None else torch.frombuffer(bytearray(state), dtype=torch.uint8)


def as_bytes(state: Any) -> bytes | None:
    return None if state is None else state.numpy().tobytes()


def generators(loader: Any) -> list[Any]:
    """The random generators from which the loader and its samplers draw, apart from the global one."""
    holders = [loader, loader.sampler, loader.batch_sampler, getattr(loader.batch_sampler, "sampler", None)]
    found = (getattr(each, "generator", None) for each in holders)
    return list({id(each): each for each in found if isinstance(each, torch.Generator)}.values())


def restore_generators(loader: Any, states: list[Any]) -> None:
    for generator, state in zip(generators(loader), states, strict=True):
        generator.set_state(state)


def opening(loader: Any) -> dict[str, Any]:
    """The random states in which an epoch begins, before the samplers draw from them."""
    return {
        "random": as_tensor(randomness.pack()),
        "generators": [each.get_state() for each in generators(loader)],
    }


@contextlib.contextmanager
def opened_again(saved: dict[str, Any]) -> Iterator[None]:
    """Run the ``with`` block in the global states of the epoch's beginning, and go on with those of now."""
    random = as_bytes(saved["random"])
    assert random is not None
    with randomness.set_aside(random):
        yield


def between_epochs(loader: Any) -> dict[str, Any]:
    """The state when no epoch is open."""
    return {
        "version": VERSION,
        "workers": loader.num_workers,
        "open": False,
        "generators": [each.get_state() for each in generators(loader)],
    }


def check(loader: Any, state: dict[str, Any]) -> None:
    """ValueError if this loader cannot go on from the state."""
    if state.get("version") != VERSION:
        raise ValueError(f"a state of version {state.get('version')}, not {VERSION}")
    if state["workers"] != loader.num_workers:
        raise ValueError(f"the state is of {state['workers']} workers, the loader has {loader.num_workers}")
    if len(state["generators"]) != len(generators(loader)):
        raise ValueError("the state is of a loader with other random generators")
    if state["open"] and state["in_order"] != loader.in_order:
        raise ValueError(f"the state is of a loader with in_order={state['in_order']}")

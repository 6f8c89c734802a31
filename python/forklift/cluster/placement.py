"""On which nodes a pool's workers are: what a node can hold, and who gets how many.

Nodes are Ray's own descriptions (``ray.nodes()``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["capacity", "describe", "spread"]

# Options of a Ray actor that count something of which a node has so much, and Ray's name for it.
_COUNTED = {"num_cpus": "CPU", "num_gpus": "GPU", "memory": "memory"}


def needs(options: Mapping[str, Any]) -> dict[str, float]:
    """What a worker takes of a node's resources; one CPU, if nothing is said of CPUs."""
    found = {"CPU": 1.0}
    for option, resource in _COUNTED.items():
        if options.get(option) is not None:
            found[resource] = float(options[option])
    found.update({name: float(amount) for name, amount in (options.get("resources") or {}).items()})
    return {name: amount for name, amount in found.items() if amount > 0}


def capacity(node: Mapping[str, Any], options: Mapping[str, Any]) -> int:
    """How many workers a node can hold. 0 for a dead node, and for one without the labels."""
    if not node.get("Alive"):
        return 0
    labels = node.get("Labels") or {}
    for name, value in (options.get("label_selector") or {}).items():
        if not value.startswith(("!", "in(")) and labels.get(name) != value:
            return 0
    has = node.get("Resources") or {}
    counts = [int(has.get(name, 0.0) / amount + 1e-9) for name, amount in needs(options).items()]
    return min(counts) if counts else int(has.get("CPU", 0.0))


def spread(wanted: int | None, room: Mapping[str, int], have: Mapping[str, int]) -> dict[str, int]:
    """How many more workers each node gets.

    ``wanted``: how many there shall be in all; None: as many as there is room for. ``room``: what each node
    can hold; ``have``: what it holds. Free nodes are filled in proportion to their room, the first ones with
    what is left over; workers that no node has room for are spread over all, as the local pool's are.
    """
    free = {node: max(count - have.get(node, 0), 0) for node, count in room.items()}
    if wanted is None:
        return {node: count for node, count in free.items() if count > 0 and not have.get(node)}
    missing = wanted - sum(have.values())
    if missing <= 0 or not room:
        return {}
    if sum(free.values()) <= missing:
        given = _proportional(missing - sum(free.values()), room)
        return {node: count for node in room if (count := free[node] + given[node]) > 0}
    return {node: count for node, count in _proportional(missing, free).items() if count > 0}


def _proportional(count: int, weights: Mapping[str, int]) -> dict[str, int]:
    total = sum(weights.values())
    given = {node: count * weight // total if total else 0 for node, weight in weights.items()}
    left = count - sum(given.values())
    for node, weight in weights.items():
        if left > 0 and (weight > 0 or not total):
            given[node] += 1
            left -= 1
    return given


def describe(nodes: list[dict[str, Any]], options: Mapping[str, Any]) -> str:
    """What a worker needs and what the nodes have, for an error."""
    wants = ", ".join(f"{amount:g} {name}" for name, amount in needs(options).items()) or "nothing"
    labels = options.get("label_selector")
    alive = [node for node in nodes if node.get("Alive")]
    most = {
        name: max((float((node.get("Resources") or {}).get(name, 0.0)) for node in alive), default=0.0)
        for name in needs(options)
    }
    has = ", ".join(f"{amount:g} {name}" for name, amount in most.items())
    where = f" on a node with the labels {labels}" if labels else ""
    return f"a worker needs {wants}{where}; of {len(alive)} nodes none has that (at most {has})"

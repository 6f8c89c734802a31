"""The connection to Ray: made when it is first needed, and never closed here, since it is the program's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

__all__ = ["Unreachable", "actor_options", "connect", "connection", "nodes", "on_node", "store"]


# Options of a Ray actor that count for each worker; an actor reserves as many times as it has workers.
_PER_WORKER = ("num_cpus", "num_gpus", "memory")

# An actor cannot be reached now: it may have got the call or not, and may come back.
Unreachable: type[Exception] = ray.exceptions.ActorUnavailableError


def connect() -> None:
    """Connect as ``ray.init()`` does: to $RAY_ADDRESS or a cluster on this machine, else start Ray here.

    A program that has called ``ray.init(...)`` itself, with an address or a runtime environment, stays
    connected as it is.
    """
    if not ray.is_initialized():
        ray.init(log_to_driver=True, configure_logging=False)


def connection() -> tuple[str, str] | None:
    """Names this connection to a cluster, by the program's job and node; None after ``ray.shutdown()``.

    Most calls of Ray's connect anew where there is no connection, so one that was underway when the program
    shut Ray down may have made another one, on which the pool's actors are not.
    """
    if not ray.is_initialized():
        return None
    here = ray.get_runtime_context()
    return here.get_job_id(), here.get_node_id()


def nodes() -> list[dict[str, Any]]:
    """The nodes of the cluster, this process's own first."""
    here = ray.get_runtime_context().get_node_id()
    found: list[dict[str, Any]] = ray.nodes()
    return sorted(found, key=lambda node: node["NodeID"] != here)


def on_node(node_id: str) -> Any:
    """The scheduling strategy of an actor that can be on this node only."""
    return NodeAffinitySchedulingStrategy(node_id, soft=False)


def actor_options(remote: Mapping[str, Any], node_id: str, workers: int) -> dict[str, Any]:
    """The options of an actor with so many workers on a node. `remote`: a worker's ``ray_remote_args``."""
    chosen = {name: value for name, value in remote.items() if name != "label_selector"}
    for name in _PER_WORKER:
        if chosen.get(name) is not None:
            chosen[name] = chosen[name] * workers
    if chosen.get("resources"):
        chosen["resources"] = {name: amount * workers for name, amount in chosen["resources"].items()}
    chosen.setdefault("num_cpus", 0)
    chosen["scheduling_strategy"] = on_node(node_id)
    return chosen


def store(content: Any) -> Any:
    """Put an object into Ray's object store. ray.exceptions.ObjectStoreFullError if it has no room."""
    return ray.put(content)

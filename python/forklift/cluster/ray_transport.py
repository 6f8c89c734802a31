"""A cluster's pool on Ray: agents are actors, one a node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ray

from forklift.cluster import engine, placement
from forklift.cluster.agent import actor_class
from forklift.cluster.agents import AgentHandle
from forklift.cluster.packing import in_arena

__all__ = ["RayTransport"]


class _Link:
    """Calls to an agent's actor; see forklift.cluster.transport.Link."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    def begin(self, plan: Any, version: str) -> Any:
        return self._actor.begin.remote(plan, version).future()

    def submit(self, batches: Any, shared: Any, forgotten: Any) -> Any:
        return self._actor.submit.remote(batches, shared, forgotten).future()

    def give_back(self, numbers: list[int]) -> None:
        self._actor.give_back.options(num_returns=0).remote(numbers)

    def collect(self, acknowledged: int, seconds: float) -> Any:
        return self._actor.collect.remote(acknowledged, seconds).future()

    def end(self) -> Any:
        return self._actor.end.remote(True).future()

    def kill(self) -> None:
        try:
            ray.kill(self._actor)
        except Exception:
            pass  # the cluster is gone, and the actor with it


class RayTransport:
    """See forklift.cluster.transport.Transport. `remote`: the option ``ray_remote_args`` of a pool.

    It does not refer to the pool, which can be freed meanwhile.
    """

    unreachable: type[Exception] | tuple[type[Exception], ...] = engine.Unreachable
    advice = "ray.init(runtime_env={'working_dir': '.'}) sends the program's modules to all nodes"
    own = staticmethod(in_arena)
    store = staticmethod(engine.store)
    nodes = staticmethod(engine.nodes)

    def __init__(self, remote: Mapping[str, Any]) -> None:
        engine.connect()
        self._connection = engine.connection()
        self._remote = remote
        self._class = actor_class()

    def capacity(self, node: Mapping[str, Any]) -> int:
        return placement.capacity(node, self._remote)

    def describe(self) -> str:
        return placement.describe(engine.nodes(), self._remote)

    def why_left(self) -> str | None:
        if self._connection is not None and engine.connection() == self._connection:
            return None
        return "the program is not connected to Ray any more"

    def connect(self, agent: AgentHandle) -> _Link:
        chosen = engine.actor_options(self._remote, agent.node_id, agent.workers)
        return _Link(self._class.options(**chosen).remote())

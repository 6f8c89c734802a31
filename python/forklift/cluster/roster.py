"""Which agents a pool has, and shall have: one for each node, with a share of the workers.

Nodes come and go; the dispatcher asks once a second which agents are missing.
"""

from __future__ import annotations

import collections
import logging
from typing import Any

from forklift.cluster import placement
from forklift.cluster.agents import AgentHandle
from forklift.cluster.transport import Transport
from forklift.cluster.wire import Plan

__all__ = ["Roster"]

_log = logging.getLogger(__name__)
# So many agents of a node may die, without having ended a task, before the node is given up.
_MOST_LOSSES = 3


class Roster:
    """See the module. `wanted`: how many workers there shall be; None: as many as there is room for."""

    def __init__(self, wanted: int | None, plan: Plan, transport: Transport) -> None:
        self._wanted = wanted
        self._plan = plan
        self._transport = transport
        self._losses: collections.Counter[str] = collections.Counter()
        self._given_up: dict[str, tuple[Any, ...]] = {}  # by node: why no agent can work there

    def more(self, agents: list[AgentHandle]) -> list[AgentHandle]:
        """The agents to start now."""
        try:
            nodes = self._transport.nodes()
        except Exception as error:
            _log.warning("the nodes of the cluster cannot be listed: %s", error)
            return []
        usable = {
            node["NodeID"]: node
            for node in nodes
            if node["NodeID"] not in self._given_up and self._transport.capacity(node) > 0
        }
        have: collections.Counter[str] = collections.Counter()
        for agent in agents:
            if agent.state != "gone":
                have[agent.node_id] += agent.workers
        room = {name: self._transport.capacity(node) for name, node in usable.items()}
        made: list[AgentHandle] = []
        for name, workers in placement.spread(self._wanted, room, have).items():
            base = _free_number([*agents, *made], workers)
            made.append(AgentHandle(usable[name], self._plan._replace(workers=workers, base=base)))
        return made

    def has_others(self, agents: list[AgentHandle], agent: AgentHandle) -> bool:
        """Tells whether another node may run what this agent cannot."""
        return any(
            each is not agent and each.state in ("starting", "ready") and each.node_id not in self._given_up
            for each in agents
        )

    def give_up(self, agent: AgentHandle, why: tuple[Any, ...]) -> None:
        """An agent's workers cannot be made ready: use its node no more."""
        if agent.node_id not in self._given_up:
            _log.warning("node %s is not used any more: %s", agent.name, why[1])
            self._given_up[agent.node_id] = why
            if agent.state == "ready":
                agent.state = "broken"

    def note_loss(self, agent: AgentHandle, error: BaseException) -> None:
        """An agent died. A node on which agents die again and again is given up."""
        if agent.ended:
            self._losses[agent.node_id] = 0
            return
        self._losses[agent.node_id] += 1
        if self._losses[agent.node_id] >= _MOST_LOSSES or not agent.pid:
            why = f"the agent on node {agent.name} cannot be started: {_reason(error)}"
            self.give_up(agent, ("stopped", why, None))

    def hopeless(self, agents: list[AgentHandle]) -> tuple[Any, ...] | None:
        """Why no node will run any task, if that is so; as forklift.cluster.outcomes.stopped returns it."""
        if not self._given_up or any(each.state in ("starting", "ready") for each in agents):
            return None
        return next(iter(self._given_up.values()))


def _free_number(agents: list[AgentHandle], count: int) -> int:
    """The first number from which on no agent has any of so many."""
    number = 0
    for agent in sorted((each for each in agents if each.state != "gone"), key=lambda each: each.plan.base):
        if agent.plan.base >= number + count:
            break
        number = max(number, agent.plan.base + agent.workers)
    return number


def _reason(error: BaseException) -> str:
    """What an actor's death says of its cause, in a line."""
    text = str(error)
    if "No module named 'forklift" in text or "No module named 'cloudpickle" in text:
        return (
            "it does not have Forklift: install the same forklift-mp and cloudpickle there,"
            " or ray.init(runtime_env={'pip': [...]})"
        )
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    return lines[-1] if lines else repr(error)

"""A cluster's pool in an MPI job: agents are ranks, and on a node with the driver alone a child of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from forklift.cluster import placement
from forklift.cluster.agents import AgentHandle
from forklift.cluster.mpi.beside import start_beside
from forklift.cluster.mpi.calls import Link
from forklift.cluster.packing import in_arena

TYPE_CHECKING = False
if TYPE_CHECKING:
    from forklift.cluster.mpi.job import Job

__all__ = ["MpiTransport"]


class MpiTransport:
    """See forklift.cluster.transport.Transport."""

    unreachable: type[Exception] | tuple[type[Exception], ...] = ()
    advice = "install the program's modules on all nodes, or put them into a folder that all of them see"

    def __init__(self, job: Job) -> None:
        self._job = job

    def nodes(self) -> list[dict[str, Any]]:
        return [each.described() for each in self._job.nodes]

    def capacity(self, node: Mapping[str, Any]) -> int:
        return placement.capacity(node, {})

    def describe(self) -> str:
        return placement.describe(self.nodes(), {})

    def connect(self, agent: AgentHandle) -> Link:
        node = next(each for each in self._job.nodes if each.described()["NodeID"] == agent.node_id)
        return start_beside(node) if node.agent is None else self._job.link(node.agent)

    def why_left(self) -> str | None:
        return None

    def store(self, content: Any) -> Any:
        """The content with copies of its buffers: the program may change what they are of."""
        data, buffers = content
        return (data, [in_arena(each) for each in buffers])

    def own(self, buffer: Any) -> Any:
        return buffer  # it was received into memory of its own

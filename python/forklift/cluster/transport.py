"""What a cluster's pool needs of the cluster: which nodes there are, and calls to their agents.

Two implementations: `ray_transport.py` (agents are actors of Ray's) and `mpi/transport.py` (agents are ranks
of an MPI job). Everything else of a pool is the same on both.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any, Protocol

from forklift.cluster.wire import Batch, Plan, Reply, Shared

__all__ = ["Link", "Transport"]


class Link(Protocol):
    """Calls to one agent, which hosts a NodePool. The methods return at once; a future has the answer.

    A future fails with the transport's `unreachable` if the agent may or may not have got the call, and will
    be there again: the call is repeated then. With any other error the agent is lost.
    """

    def begin(self, plan: Plan, version: str) -> Future[int]:
        """Start the workers. The answer is the agent's process id; RuntimeError for another version."""

    def submit(self, batches: list[Batch], shared: list[Shared], forgotten: list[int]) -> Future[None]:
        """See NodePool.submit."""

    def give_back(self, numbers: list[int]) -> None:
        """See NodePool.give_back. There is no answer."""

    def collect(self, acknowledged: int, seconds: float) -> Future[Reply]:
        """See NodePool.collect."""

    def end(self) -> Future[list[Any]]:
        """End the workers in good order. The answer: log records that were not collected."""

    def kill(self) -> None:
        """End the agent's pool and its workers at once. Never raises."""


class Transport(Protocol):
    """See the module. A pool has one of its own.

    Nodes are mappings with Ray's names: NodeID, NodeManagerHostname, NodeManagerAddress, Alive, Resources.
    """

    unreachable: type[Exception] | tuple[type[Exception], ...]
    advice: str  # what to do if a node does not have the program's modules

    def nodes(self) -> list[dict[str, Any]]:
        """The nodes of the cluster, the driver's own first."""

    def capacity(self, node: Mapping[str, Any]) -> int:
        """How many workers a node can hold."""

    def describe(self) -> str:
        """Why no node can hold a worker, for an error."""

    def connect(self, agent: Any) -> Link:
        """Make an agent where an AgentHandle says, or reach it."""

    def why_left(self) -> str | None:
        """Why the program cannot reach any agent now; None: it can."""

    def store(self, content: Any) -> Any:
        """Take over (pickle, buffers) of a large object that nodes get once. What is sent to them instead."""

    def own(self, buffer: Any) -> Any:
        """A private, writable buffer with the content of a received one."""

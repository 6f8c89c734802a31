"""``get_context("mpi")``: the names of a context, for processes on all nodes of an MPI job."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

from forklift.cluster.cluster_context import ClusterContext
from forklift.cluster.kept import ClusterManager
from forklift.cluster.mpi.current import current
from forklift.cluster.mpi.keeper import start_manager
from forklift.cluster.mpi.transport import MpiTransport
from forklift.cluster.pool import Pool
from forklift.errors import NotAcrossNodesError

__all__ = ["MpiContext"]


class MpiContext(ClusterContext):
    """See the module; docs/scale.md describes each name. Of the driver of an MPI job only."""

    _name = "mpi"
    instead_of_cpus = (
        "the launcher binds ranks to processors, and workers may use those of their node's ranks"
    )

    def _start_manager(self) -> ClusterManager:
        job = current()
        return start_manager("127.0.0.1" if job.is_one_machine() else job.ranks[0].address)

    def _transport(self, options: Mapping[str, Any]) -> MpiTransport:
        return MpiTransport(current())

    def cpu_count(self) -> int:
        """The number of workers that there is room for: ranks, or the CPUs of a node with one rank."""
        return sum(each.workers for each in current().nodes)

    def Pool(
        self,
        processes: int | None = None,
        initializer: Callable[..., object] | None = None,
        initargs: Iterable[Any] = (),
        maxtasksperchild: int | None = None,
        *,
        finalizer: Callable[[], object] | None = None,
        timeout: float | None = None,
        retries: int = 0,
        warm_spare: bool = False,
        max_memory: int | None = None,
        cpus: Any = None,
        nested: bool = False,
        log: bool = False,
    ) -> Pool:
        """A pool of workers on all nodes. See forklift.cluster.pool.Pool for the options of all clusters."""
        return self._pool(
            processes,
            initializer,
            initargs,
            maxtasksperchild,
            {},
            {
                "finalizer": finalizer,
                "timeout": timeout,
                "retries": retries,
                "warm_spare": warm_spare,
                "max_memory": max_memory,
                "cpus": cpus,
                "nested": nested,
                "log": log,
            },
        )

    def Process(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise NotAcrossNodesError(
            "an MPI job has the processes that its launcher started, and no more start on other nodes:"
            ' use Pool().apply_async(...), or get_context("forkserver").Process on this machine'
        )

    def spawn(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise NotAcrossNodesError(
            "ranks of an MPI job are started by its launcher: use mpi4py for programs of ranks, or"
            " forklift.multiprocessing.spawn on this machine"
        )

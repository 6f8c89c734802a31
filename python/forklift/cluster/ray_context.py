"""``get_context("ray")``: the names of a context, for processes on all nodes of a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from forklift.cluster import engine
from forklift.cluster.cluster_context import ClusterContext
from forklift.cluster.keeper import start_manager
from forklift.cluster.kept import ClusterManager
from forklift.cluster.pool import Pool
from forklift.cluster.process import Process
from forklift.cluster.ranks import Ranks, spawn
from forklift.cluster.ray_transport import RayTransport

__all__ = ["RayContext"]


class RayContext(ClusterContext):
    """See the module; docs/scale.md describes each name. It connects to Ray when something is made."""

    _name = "ray"
    instead_of_cpus = "ray_remote_args={'num_cpus': n} reserves n CPUs for each worker"

    def _start_manager(self) -> ClusterManager:
        return start_manager()

    def _transport(self, options: Mapping[str, Any]) -> RayTransport:
        return RayTransport(options)

    def cpu_count(self) -> int:
        """The number of CPUs of all nodes."""
        engine.connect()
        return int(sum(node["Resources"].get("CPU", 0) for node in engine.nodes() if node["Alive"]))

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
        ray_remote_args: Mapping[str, Any] | None = None,
    ) -> Pool:
        """A pool of workers on all nodes. See forklift.cluster.pool.Pool for the options of all clusters.

        ``ray_remote_args``, as Ray's own pool has it: what each *worker* reserves (``num_cpus``,
        ``num_gpus``, ``memory``, ``resources``), ``label_selector`` and ``runtime_env`` of all. Without it
        nothing is reserved; a node has as many workers as CPUs.
        """
        return self._pool(
            processes,
            initializer,
            initargs,
            maxtasksperchild,
            dict(ray_remote_args or {}),
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

    # --- processes

    Process = Process

    def spawn(
        self,
        fn: Callable[..., object],
        args: Iterable[Any] = (),
        nprocs: int = 1,
        join: bool = True,
        daemon: bool = False,
        ray_remote_args: Mapping[str, Any] | None = None,
    ) -> Ranks | None:
        """Run fn(rank, *args) in `nprocs` processes, which stop together. See forklift.cluster.ranks."""
        return spawn(fn, args, nprocs, join, daemon, ray_remote_args)

"""The node agent: a Ray actor on a node that hosts a Forklift domain and the node's pool of workers.

Each method is in a concurrency group of its own, with one thread: a call that waits for results, or for room
in the workers' queue, does not hold up the others. The driver repeats `submit` and `collect` after a broken
connection, which NodePool allows. The actor is never restarted: the driver sends its tasks to another one.

When the driver ends, however it ends, Ray ends the actor, and Forklift's lifelines end its workers. An agent
that has lost its raylet or the cluster ends itself (see lifeline.py): its tasks run elsewhere by then.
"""

from __future__ import annotations

import os
import sys
import types
from multiprocessing import process
from typing import Any

import ray

import forklift.multiprocessing
from forklift import _core
from forklift.cluster import lifeline
from forklift.cluster.node_pool import NodePool
from forklift.cluster.wire import Batch, Plan, Reply, Shared

__all__ = ["Agent", "actor_class", "settle_in"]


class Agent:
    """What runs on the node. The driver makes an actor of it."""

    _pool: NodePool

    @ray.method(concurrency_group="control")  # type: ignore[untyped-decorator]
    def begin(self, plan: Plan, version: str) -> int:
        """Start the workers. Returns the agent's process id. RuntimeError for another version of Forklift."""
        if version != _core.__version__:
            raise RuntimeError(
                f"this node has forklift-mp {_core.__version__}, and the driver has {version}:"
                " install the same version on all nodes"
            )
        settle_in(plan.authkey, plan.sys_path)
        self._pool = NodePool(plan, forklift.multiprocessing.get_context("forkserver"), ray.get)
        return os.getpid()

    @ray.method(concurrency_group="submit")  # type: ignore[untyped-decorator]
    def submit(self, batches: list[Batch], shared: list[Shared], forgotten: list[int]) -> None:
        """See NodePool.submit."""
        self._pool.submit(batches, shared, forgotten)

    @ray.method(concurrency_group="control")  # type: ignore[untyped-decorator]
    def give_back(self, numbers: list[int]) -> None:
        """See NodePool.give_back."""
        self._pool.give_back(numbers)

    @ray.method(concurrency_group="collect")  # type: ignore[untyped-decorator]
    def collect(self, acknowledged: int, seconds: float) -> Reply:
        """See NodePool.collect."""
        return self._pool.collect(acknowledged, seconds)

    @ray.method(concurrency_group="control")  # type: ignore[untyped-decorator]
    def end(self, in_good_order: bool) -> list[Any]:
        """End the workers. Returns the log records that were not collected."""
        if in_good_order:
            self._pool.close()
        else:
            self._pool.terminate()
        return self._pool.collect(sys.maxsize, 0).records


def settle_in(authkey: bytes, sys_path: list[str]) -> None:
    """Prepare an actor's process for children that run the program's functions."""
    # The children would import the main module of Ray's own worker otherwise, and Ray with it.
    sys.modules["__main__"] = types.ModuleType("__main__")
    process.current_process().authkey = authkey
    # As with the start method spawn: where nodes have the same files, modules are found.
    sys.path += [path for path in sys_path if path not in sys.path and os.path.exists(path)]
    lifeline.hold(os.getppid(), ray.get_runtime_context().gcs_address)


def actor_class() -> Any:
    """The agent as an actor's class, to be given options."""
    groups = {"submit": 1, "collect": 1, "control": 1}
    return ray.remote(concurrency_groups=groups, num_cpus=0, max_restarts=0, max_task_retries=0)(Agent)

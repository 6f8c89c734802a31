"""Groups of ranks on several nodes of a Ray cluster: forklift.collectives beside serial results; deaths."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import forklift.multiprocessing as mp
import node_group_targets as ranks
import pytest
import ray_targets as targets
import support

ray = pytest.importorskip("ray", reason="Ray is not installed: python -m pip install ray cloudpickle")
pytest.importorskip("torch", reason="Ray's collective library uses torch's Gloo on CPUs")


@pytest.fixture
def context(ray_context: Any) -> Any:
    return ray_context


@pytest.mark.parametrize(
    ("kind", "size"),
    [("numpy", 4), *(pytest.param(kind, 3, marks=pytest.mark.weekly) for kind in ("torch", "forklift"))],
)
def test_every_collective_as_on_one_node(context: Any, kind: str, size: int) -> None:
    """Three nodes: with four ranks two of them are on one."""
    context.spawn(ranks.nodes_collectives, (kind, 1000), nprocs=size)


def test_ranks_on_one_node_are_a_local_group(context: Any) -> None:
    on_the_head = {"num_cpus": 0.1, "resources": {"node:__internal_head__": 0.01}}
    context.spawn(ranks.nodes_collectives, ("numpy", 10), nprocs=2, ray_remote_args=on_the_head)


def test_mistakes_are_told_and_the_group_goes_on(context: Any) -> None:
    context.spawn(ranks.nodes_mistakes, nprocs=3)


def test_a_rank_that_gives_up_breaks_the_group(context: Any) -> None:
    told = context.Queue()
    context.spawn(ranks.nodes_late, (told,), nprocs=2)
    assert told.get(timeout=1) == "broken"


@pytest.mark.parametrize("what", [pytest.param("rank", marks=pytest.mark.weekly), "node"])
def test_a_rank_or_a_node_that_is_killed(cluster: Any, context: Any, what: str) -> None:
    added = cluster.add_node(num_cpus=1, object_store_memory=200 << 20, resources={"group": 1})
    nodes = [added]
    try:
        nodes.append(cluster.add_node(num_cpus=1, object_store_memory=200 << 20, resources={"group": 1}))
        told = context.Queue()
        group = context.spawn(
            ranks.nodes_loss, (told,), nprocs=2, join=False, ray_remote_args={"resources": {"group": 1}}
        )
        pids = dict(told.get(timeout=support.DEADLINE) for _ in range(2))
        time.sleep(0.2)  # any time will do; they combine all the while
        if what == "rank":
            os.kill(pids[1], signal.SIGKILL)
        else:
            raylets = [each.process.pid for node in nodes for each in node.all_processes["raylet"]]
            (raylet,) = set(raylets) & set(targets.ancestors(pids[1]))
            os.kill(raylet, signal.SIGKILL)
        rank, text = told.get(timeout=support.DEADLINE)
        assert rank == 0
        assert f"rank 1 (pid {pids[1]}" in text or "node was lost" in text
        with pytest.raises(mp.ProcessExitedException, match="process 1"):
            group.join(grace_period=5)
        support.until(lambda: not any(map(targets.alive, pids.values())), "they end")
    finally:
        for node in nodes:
            cluster.remove_node(node)
        support.until(lambda: sum(node["Alive"] for node in ray.nodes()) == 3, "the cluster is as it was")

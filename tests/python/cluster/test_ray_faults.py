"""Nodes and processes of a Ray cluster that are killed, and nodes that join."""

from __future__ import annotations

import collections
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import forklift
import forklift.multiprocessing as mp
import pool_targets
import pytest
import ray_targets as targets
import support
from forklift.multiprocessing.pool import WorkerDiedError


def kill_node(node: Any) -> None:
    """SIGKILL to all processes of a node at once: what a machine that loses its power does."""
    for process in node.all_processes["raylet"]:
        os.kill(process.process.pid, signal.SIGKILL)


def test_a_node_that_joins_is_used_within_five_seconds(cluster: Any) -> None:
    with mp.get_context("ray").Pool() as pool:
        result = pool.map_async(targets.nap, [0.05] * 400, 1)
        support.until(lambda: len(pool.nodes()) == 3, "three nodes")
        added = cluster.add_node(num_cpus=1, object_store_memory=200 << 20)
        begin = time.monotonic()
        try:
            support.until(
                lambda: any(each.node_id == added.node_id and each.ended for each in pool.nodes()),
                "the new node has ended a task",
            )
            assert time.monotonic() - begin < 5
            assert result.get(support.DEADLINE) == [0.05] * 400
        finally:
            cluster.remove_node(added)


@pytest.mark.parametrize("retries", [pytest.param(1, marks=pytest.mark.weekly), 0])
def test_a_node_is_killed_while_tasks_run(cluster: Any, tmp_path: Path, retries: int) -> None:
    added = cluster.add_node(num_cpus=2, object_store_memory=200 << 20)
    seen: list[Any] = []
    try:
        with mp.get_context("ray").Pool(retries=retries) as pool:
            support.until(
                lambda: sum(each.state == "ready" for each in pool.nodes()) == 4, "four nodes are ready"
            )
            turns = [(str(tmp_path), i, 0.02) for i in range(300)]
            results = [
                pool.apply_async(targets.mark, (turn,), callback=seen.append, error_callback=seen.append)
                for turn in turns
            ]
            support.until(lambda: len(seen) > 60, "tasks run")
            pids = next(each.pids for each in pool.nodes() if each.node_id == added.node_id)
            kill_node(added)
            outcomes = []
            for result in results:
                try:
                    outcomes.append(result.get(support.DEADLINE))
                except WorkerDiedError as error:
                    outcomes.append("lost" if "was lost" in str(error) else error)
            support.until(lambda: not any(targets.alive(pid) for pid in pids), "its workers end")
            support.until(lambda: len(pool.nodes()) == 3, "it is not among the nodes any more")
    finally:
        cluster.remove_node(added)
    runs = [len((tmp_path / str(i)).read_text()) for i in range(300) if (tmp_path / str(i)).exists()]
    assert len(seen) == 300  # each task has ended once
    if retries:
        assert outcomes == list(range(300))
        assert max(runs) <= 2
    else:
        assert 0 < outcomes.count("lost") <= 8
        assert [each for each in outcomes if each != "lost"] == [
            i for i, each in enumerate(outcomes) if each != "lost"
        ]
        assert max(runs) == 1


@pytest.mark.weekly
def test_many_small_tasks_and_a_killed_node(cluster: Any) -> None:
    added = cluster.add_node(num_cpus=2, object_store_memory=200 << 20)
    try:
        with mp.get_context("ray").Pool(retries=1) as pool:
            support.until(lambda: sum(each.state == "ready" for each in pool.nodes()) == 4, "four nodes")
            counted: collections.Counter[int] = collections.Counter()
            turns = pool.imap_unordered(targets.same, range(100_000))
            for number in turns:
                counted[number] += 1
                if len(counted) == 20_000:
                    kill_node(added)
            assert len(counted) == 100_000
            assert set(counted.values()) == {1}
    finally:
        cluster.remove_node(added)


def test_workers_are_killed_again_and_again(ray_context: Any) -> None:
    with ray_context.Pool(3) as pool:
        assert pool.map(targets.same, range(3), 1) == [0, 1, 2]
        for _ in range(3):
            result = pool.map_async(targets.nap, [0.01] * 30, 1)
            for worker in pool._pool:
                if worker.pid is not None:
                    try:
                        os.kill(worker.pid, signal.SIGKILL)
                    except ProcessLookupError:
                        pass
            try:
                assert result.get(support.DEADLINE) == [0.01] * 30
            except WorkerDiedError:
                pass
        assert pool.map(pool_targets.square, range(30), 1) == [i * i for i in range(30)]


def test_an_agent_that_is_killed_is_replaced(ray_context: Any) -> None:
    with ray_context.Pool(1, retries=1) as pool:
        assert pool.apply(targets.same, (1,)) == 1
        (node,) = pool.nodes()
        result = pool.apply_async(targets.nap, (0.5,))
        support.until(lambda: pool.nodes()[0].running == 1, "the task runs")
        os.kill(node.pid, signal.SIGKILL)
        assert result.get(support.DEADLINE) == 0.5
        assert [each.pid != node.pid for each in pool.nodes()] == [True]
        support.until(lambda: not any(targets.alive(pid) for pid in node.pids), "the old workers end")


def test_an_initializer_that_fails_on_all_nodes(ray_context: Any) -> None:
    with ray_context.Pool(2, pool_targets.bad_start) as pool:
        with pytest.raises(forklift.PoolStoppedError, match="cannot be run") as caught:
            pool.map(targets.same, [1, 2, 3], 1)
        assert "in bad_start" in str(caught.value.__cause__.__cause__)


DRIVER = """
import sys, time
sys.path.insert(0, sys.argv[2])
import ray
import ray_targets as targets
import forklift.multiprocessing as mp
if __name__ == "__main__":
    ray.init(address=sys.argv[1], log_to_driver=False, logging_level="ERROR")
    pool = mp.get_context("ray").Pool()
    pool.map(targets.nap, [0.05] * 12, 1)
    result = pool.map_async(targets.nap, [300] * 6, 1)
    while sum(each.running and len(each.pids) for each in pool.nodes()) < 3:
        time.sleep(0.01)
    print(*[pid for each in pool.nodes() for pid in (each.pid, *each.pids)], flush=True)
    time.sleep(300)
"""


LEAVER = """
import sys, time
sys.path.insert(0, sys.argv[2])
import ray
import ray_targets as targets
import forklift.multiprocessing as mp
if __name__ == "__main__":
    ray.init(address=sys.argv[1], log_to_driver=False, logging_level="ERROR")
    pool = mp.get_context("ray").Pool(1)
    assert pool.map(targets.same, range(9), 1) == list(range(9))
    result = pool.map_async(targets.nap, [300] * 6, 1)
    if sys.argv[3] == "shutdown":
        ray.shutdown()
        try:
            result.get(30)
        except Exception as error:
            print(type(error).__name__)
"""


RECONNECTED = """
import sys
import ray
from forklift.cluster.ray_transport import RayTransport
options = {"address": sys.argv[1], "log_to_driver": False, "logging_level": "ERROR"}
ray.init(**options)
transport = RayTransport({})
assert transport.why_left() is None
ray.shutdown()
assert "not connected" in transport.why_left()
ray.init(**options)
assert "not connected" in transport.why_left()
assert RayTransport({}).why_left() is None
print("done")
"""


def test_another_connection_is_not_the_pools(cluster: Any) -> None:
    """Ray connects anew by itself if the dispatcher calls it while the program shuts it down."""
    done = subprocess.run(
        [sys.executable, "-c", RECONNECTED, cluster.address], capture_output=True, text=True, timeout=90
    )
    assert done.stdout.strip() == "done", done.stderr


@pytest.mark.parametrize(
    ("how", "says"),
    [
        pytest.param("shutdown", {"WorkerDiedError", "PoolStoppedError"}, marks=pytest.mark.weekly),
        ("leave", {""}),
    ],
)
def test_a_program_that_leaves_the_cluster_ends(
    cluster: Any, tmp_path: Path, how: str, says: set[str]
) -> None:
    program = tmp_path / "leaver.py"
    program.write_text(LEAVER)
    done = subprocess.run(
        [sys.executable, str(program), cluster.address, str(Path(__file__).parent), how],
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in says


def test_a_killed_driver_leaves_no_process_on_any_node(cluster: Any, tmp_path: Path) -> None:
    program = tmp_path / "driver.py"
    program.write_text(DRIVER)
    driver = subprocess.Popen(
        [sys.executable, str(program), cluster.address, str(Path(__file__).parent)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert driver.stdout is not None
    pids = [int(pid) for pid in driver.stdout.readline().split()]
    assert len(pids) == 6
    assert all(targets.alive(pid) for pid in pids)
    driver.kill()
    driver.wait()
    driver.stdout.close()
    support.until(lambda: not any(targets.alive(pid) for pid in pids), "agents and workers end")


def test_what_is_larger_than_the_object_store(ray_context: Any) -> None:
    """Ray keeps it in files then: slower, and whole."""
    size = 232 << 20  # a node's store has 200
    with ray_context.Pool(1) as pool:
        result = pool.apply(targets.sevens, (size,))
        assert result.nbytes == size
        assert result.min() == result.max() == 7
        assert pool.apply(targets.nbytes, (result,)) == size

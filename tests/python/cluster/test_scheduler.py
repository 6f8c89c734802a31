"""The driver's scheduler without a cluster: what waits, how much an agent gets, many simulated nodes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("cloudpickle")

from forklift.cluster.agents import AgentHandle
from forklift.cluster.gathering import Gathering
from forklift.cluster.pending import Pending
from forklift.cluster.segment import Segment
from forklift.cluster.wire import Plan

SIMULATION = Path(__file__).parents[3] / "bench/cluster_simulation.py"
NODE = {"NodeID": "1", "NodeManagerHostname": "one", "NodeManagerAddress": ""}


def segment(begin: int, end: int) -> Segment:
    return Segment(None, None, 0, True, range(begin, end), list(range(begin, end)))


def agent(workers: int) -> AgentHandle:
    return AgentHandle(NODE, Plan(workers, 0, None, None, 0, 0, False, False, None, b"", []))


@pytest.mark.parametrize("count", [1, 3, 4, 7, 10, 100])
def test_tasks_are_taken_in_order_and_once(count: int) -> None:
    pending = Pending()
    assert pending.put(segment(0, 10))
    assert pending.put(segment(10, 15))
    taken: list[int] = []
    while pending:
        part = pending.take(count)
        assert list(part.indices) == part.arguments
        taken += part.arguments
        assert pending.tasks == 15 - len(taken)
    assert taken == list(range(15))


@pytest.mark.parametrize("count", [1, 3, 8])
def test_what_comes_back_is_first_and_nothing_is_taken_twice(count: int) -> None:
    pending = Pending()
    assert pending.put(segment(0, 10))
    first = pending.take(count)
    pending.put_back(first)
    assert pending.tasks == 10
    assert pending.take(count).arguments == first.arguments
    rest: list[int] = []
    while pending:
        rest += pending.take(4).arguments
    assert rest == list(range(count, 10))
    assert pending.tasks == 0


def test_there_is_room_for_sixteen_tasks_a_worker() -> None:
    pending = Pending()
    assert pending.put(segment(0, 32768))
    assert not pending.wait_for_room(False)
    pending.make_room(64_000)
    assert pending.wait_for_room(False)


def test_a_busy_driver_sends_more_at_a_time() -> None:
    idle, busy = agent(64), agent(64)
    busy.plan_ahead(0.1)
    assert idle.batch_tasks(0.05) == 1
    assert busy.batch_tasks(0.05) == 66  # ahead for 0.53 s, eighteen times what an idle driver sends
    assert idle.room(0.05) == 64 + 39
    assert busy.room(0.05) == 64 + 679
    busy.plan_ahead(100)
    assert busy.room(0.05) == 64 + 2560  # two seconds' work at most


def test_an_agent_that_is_alone_gets_more_at_a_time() -> None:
    alone = agent(2)
    alone.plan_ahead(0.0, alone=True)
    assert alone.batch_tasks(0.001) == 12
    assert alone.room(0.001) == 2 + 240
    assert alone.batch_tasks(1.0) == 1  # long tasks go one by one to an idle driver's agent
    alone.plan_ahead(0.0)
    assert alone.batch_tasks(0.001) == 3
    assert alone.room(0.001) == 2 + 60


def test_few_tasks_that_wait_do_not_gather_on_a_node() -> None:
    slow = agent(1)
    slow.plan_ahead(0.0005)
    assert slow.batch_tasks(10) == 1
    assert slow.room(10) == 2


def gathering(workers: int, task_seconds: float) -> Gathering:
    made = Gathering(workers)
    made.replied(task_seconds)
    return made


@pytest.mark.parametrize("tasks", [0, 1, 64])
def test_an_agent_without_work_ahead_replies_at_once(tasks: int) -> None:
    assert gathering(64, 0.05).until(5.0, tasks) == 5.0


def test_an_agent_that_does_not_know_how_long_tasks_take_replies_at_once() -> None:
    assert Gathering(64).until(5.0, 1000) == 5.0


def test_replies_gather_for_a_part_of_the_work_ahead() -> None:
    some = gathering(64, 0.05)
    assert some.until(5.0, 64 + 12) == pytest.approx(5.0 + 12 * 0.05 / 64 / 3)
    assert some.until(5.001, 64 + 7) == pytest.approx(5.0 + 12 * 0.05 / 64 / 3)
    assert some.until(5.002, 64 + 6) == 5.002  # half of what was ahead has begun
    some.replied(0.0)
    assert some.until(6.0, 10_000) == pytest.approx(6.02)  # the longest time


def simulated(*options: str) -> dict[str, float]:
    """With a driver that takes no time; with its own time the result depends on the machine."""
    command = [sys.executable, str(SIMULATION), "--seconds", "1", "--driver", "0", "--call", "0", *options]
    said = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    found: dict[str, float] = json.loads(said)["found"]
    return found


@pytest.mark.weekly
def test_a_driver_of_ten_simulated_nodes_gets_few_messages() -> None:
    found = simulated("--nodes", "10", "--workers", "64", "--task", "0.05")
    assert found["calls_per_second"] < 0.25 * found["tasks_per_second"]
    assert 0.97 < found["utilisation"] < 1.03


@pytest.mark.parametrize(("nodes", "workers"), [(1, 2), pytest.param(30, 8, marks=pytest.mark.weekly)])
def test_simulated_workers_are_kept_busy(nodes: int, workers: int) -> None:
    found = simulated("--nodes", str(nodes), "--workers", str(workers), "--task", "0.02")
    assert 0.97 < found["utilisation"] < 1.03
    assert found["tasks_per_second"] == pytest.approx(nodes * workers / 0.02, rel=0.1)

"""The pool of one node, without Ray: calls that come twice, tasks that are given back; where workers go."""

from __future__ import annotations

import pickle
import time
import weakref
from collections.abc import Iterator
from typing import Any

import forklift.multiprocessing as mp
import pytest
import ray_targets as targets
import support

pytest.importorskip("cloudpickle")

from forklift.cluster import placement, tasks
from forklift.cluster.node_pool import NodePool
from forklift.cluster.wire import Batch, Plan, Reply, Report, Shared

PLAN = Plan(1, 0, None, None, 0, 0, False, False, None, b"key", [])


@pytest.fixture
def node() -> Iterator[NodePool]:
    made = NodePool(PLAN, mp.get_context("fork"))
    yield weakref.proxy(made)  # pytest keeps what it is given beyond the leak check
    made.terminate()
    del made


def batch(number: int, function: Any, items: list[Any]) -> Batch:
    return Batch(number, (pickle.dumps(function), False), tasks.ITEM, True, items, None, None, 0.0)


def reports(node: NodePool, acknowledged: int) -> Reply:
    """The next reply with reports."""
    end = time.monotonic() + support.DEADLINE
    while True:
        reply = node.collect(acknowledged, 0.2)
        if reply.reports:
            return reply
        assert time.monotonic() < end
        acknowledged = reply.number


def test_a_batch_that_comes_twice_is_run_once(node: NodePool) -> None:
    for _ in range(2):
        node.submit([batch(1, targets.same, [5, "six", None])], [], [])
    reply = reports(node, 0)
    assert reply.reports == [Report(1, None, [5, "six", None], None)]
    assert reports_after(node, reply) == []


def reports_after(node: NodePool, reply: Reply) -> list[Report]:
    return node.collect(reply.number, 0.1).reports


def test_a_reply_is_repeated_until_it_is_acknowledged(node: NodePool) -> None:
    node.submit([batch(1, targets.same, [1])], [], [])
    reply = reports(node, 0)
    assert node.collect(reply.number - 1, 1) is reply
    assert node.collect(reply.number - 1, 1) is reply
    assert reports_after(node, reply) == []


def test_reports_gather_while_there_is_work_ahead_and_failures_do_not_wait(node: NodePool) -> None:
    node.submit([batch(1, targets.nap, [0.01])], [], [])
    reply = reports(node, 0)  # at once; from now on the node knows how long a task takes
    node.submit([batch(number, targets.nap, [0.002]) for number in range(2, 42)], [], [])
    counts = []
    while sum(counts) < 40:
        reply = reports(node, reply.number)
        counts.append(len(reply.reports))
    assert max(counts) > 1
    assert len(counts) < 30
    node.submit(
        [batch(50, targets.leave, [0]), *(batch(n, targets.nap, [0.1]) for n in (51, 52, 53))], [], []
    )
    reply = reports(node, reply.number)
    assert [each.batch for each in reply.reports] == [50]
    assert reply.reports[0].failures


def test_large_results_do_not_gather(node: NodePool) -> None:
    node.submit([batch(1, targets.nap, [0.1])], [], [])
    acknowledged = reports(node, 0).number
    node.submit([batch(number, targets.large_after, [0.1]) for number in range(2, 12)], [], [])
    assert len(node.collect(acknowledged, support.DEADLINE).reports) == 1


def test_tasks_that_have_not_begun_are_given_back(node: NodePool) -> None:
    node.submit([batch(1, targets.nap, [0.3, 0.31, 0.32]), batch(2, targets.same, [7])], [], [])
    time.sleep(0.1)
    node.give_back([1, 2, 99])
    seen: dict[int, dict[int, Any]] = {1: {}, 2: {}}
    acknowledged = 0
    while len(seen[1]) < 3 or len(seen[2]) < 1:
        reply = reports(node, acknowledged)
        acknowledged = reply.number
        for each in reply.reports:
            places = each.places if each.places is not None else range(len(each.values))
            for at, place in enumerate(places):
                seen[each.batch][place] = (each.failures or {}).get(place, each.values[at])
    assert seen[1] == {0: 0.3, 1: ("cancelled",), 2: ("cancelled",)}
    assert seen[2] == {0: ("cancelled",)}


def test_a_slow_task_does_not_hold_up_the_others_of_its_batch(node: NodePool) -> None:
    node.submit([batch(1, targets.nap, [0.0, 0.001, 1.0])], [], [])
    first = reports(node, 0)
    assert first.reports[0].places is not None
    assert 2 not in first.reports[0].places


def test_an_object_that_cannot_be_made_fails_its_tasks_only(node: NodePool) -> None:
    broken = Shared(10, "frozen", (b"no pickle", []))
    node.submit([batch(1, targets.same, [1])._replace(plain=False, shared={0: [10]})], [broken], [])
    (report,) = reports(node, 0).reports
    assert report.failures is not None
    assert report.failures[0][0] == "unreadable"
    node.submit([batch(2, targets.same, [2])], [], [10])
    assert reports(node, 1).reports[-1].values == [2]


@pytest.mark.parametrize(
    ("wanted", "room", "have", "given"),
    [
        (None, {"a": 4, "b": 2}, {}, {"a": 4, "b": 2}),
        (None, {"a": 4, "b": 2}, {"a": 4}, {"b": 2}),
        (3, {"a": 4, "b": 2}, {}, {"a": 2, "b": 1}),
        (1, {"a": 2, "b": 2}, {}, {"a": 1}),
        (9, {"a": 4, "b": 2}, {}, {"a": 6, "b": 3}),
        (6, {"a": 4, "b": 2}, {"a": 4}, {"b": 2}),
        (6, {"a": 4}, {"a": 4}, {"a": 2}),  # another node was lost
        (6, {"a": 4, "b": 2}, {"a": 6}, {}),
        (2, {}, {}, {}),
    ],
)
def test_where_workers_go(wanted: int | None, room: Any, have: Any, given: Any) -> None:
    assert placement.spread(wanted, room, have) == given


def test_what_a_node_can_hold() -> None:
    node = {"Alive": True, "Resources": {"CPU": 8.0, "GPU": 2.0, "x": 3.0}, "Labels": {"zone": "a"}}
    assert placement.capacity(node, {}) == 8
    assert placement.capacity(node, {"num_gpus": 0.5}) == 4
    assert placement.capacity(node, {"num_cpus": 3}) == 2
    assert placement.capacity(node, {"resources": {"x": 1}, "num_cpus": 0}) == 3
    assert placement.capacity(node, {"label_selector": {"zone": "b"}}) == 0
    assert placement.capacity({**node, "Alive": False}, {}) == 0

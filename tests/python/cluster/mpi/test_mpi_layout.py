"""Which ranks make up which nodes, and messages with buffers, without MPI."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cloudpickle")

from forklift.cluster.mpi import hosting, layout, parcels


def rank(number: int, machine: int, cpus: set[int]) -> layout.Rank:
    return layout.Rank(
        number, machine, f"host{machine}", f"10.0.0.{machine}", 100 + number, "boot", frozenset(cpus), "1"
    )


RANKS = [
    rank(0, 0, {0}),
    rank(1, 0, {1}),
    rank(2, 0, {2}),
    rank(3, 3, {0, 1, 2, 3}),
    rank(4, 4, {0}),
    rank(5, 4, {1}),
]


def test_machines_without_mpi() -> None:
    nodes = layout.grouped(RANKS, {})
    assert [(each.agent, each.ranks, each.workers) for each in nodes] == [
        (1, (0, 1, 2), 3),
        (3, (3,), 4),
        (4, (4, 5), 2),
    ]
    assert nodes[0].cpus == {0, 1, 2}


def test_groups_of_a_machine_without_mpi() -> None:
    nodes = layout.grouped(RANKS, {layout.GROUP_VARIABLE: "1"})
    assert [each.agent for each in nodes] == [None, 1, 2, 3, 4, 5]
    assert [each.workers for each in nodes] == [1, 1, 1, 4, 1, 1]
    assert len({each.described()["NodeID"] for each in nodes}) == 6
    nodes = layout.grouped(RANKS, {layout.GROUP_VARIABLE: "2"})
    assert [each.ranks for each in nodes] == [(0, 1), (2,), (3,), (4, 5)]


@pytest.mark.parametrize("size", ["0", "-1", "two"])
def test_sizes_that_are_none_without_mpi(size: str) -> None:
    with pytest.raises(ValueError, match="number of ranks of a node"):
        layout.grouped(RANKS, {layout.GROUP_VARIABLE: size})


def test_this_process_without_mpi() -> None:
    me = layout.this_rank(3, 0, "1")
    assert me.pid == os.getpid()
    assert me.cpus == os.sched_getaffinity(0)
    assert str(os.getpid()) in str(me)


@pytest.mark.parametrize(
    "message",
    [
        (1, "two", None),
        [np.arange(10_000), b"x" * 50_000, np.ones(3)],
        {"a": [np.zeros((200, 300))[:, ::2]]},
        [b"y" * 3_000_000, np.ones(9_000)],
    ],
)
def test_messages_without_mpi(message: Any) -> None:
    head, *buffers = parcels.packed(message)
    assert [len(each) for each in buffers] == parcels.sizes_in(head)
    received = [parcels.room_for(len(each)) for each in buffers]
    for target, source in zip(received, buffers, strict=True):
        target[:] = np.frombuffer(source, np.uint8)
    np.testing.assert_equal(parcels.opened(bytearray(head), received), message)


def test_an_environment_for_workers_without_mpi() -> None:
    given = {"PATH": "/bin", "OMPI_COMM_WORLD_RANK": "1", "PMIX_RANK": "1", "PMI_RANK": "1"}
    assert hosting.without_launcher(given) == {"PATH": "/bin", "MPI4PY_RC_INITIALIZE": "0"}

"""The ranks of an MPI job, and the nodes that they make up."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from typing import Any, NamedTuple

__all__ = ["GROUP_VARIABLE", "Node", "Rank", "grouped", "this_rank"]

# Divides the ranks of one machine into groups of so many, each of which counts as a node.
GROUP_VARIABLE = "FORKLIFT_MPI_NODE_RANKS"


class Rank(NamedTuple):
    """A process of the job, as it describes itself to the others."""

    rank: int
    machine: int  # the lowest rank of the machine
    host: str
    address: str  # at which other machines reach it
    pid: int
    processes: str  # names the kernel and the PID namespace in which the process id holds
    cpus: frozenset[int]  # that the process may use
    version: str  # of Forklift

    def __str__(self) -> str:
        return f"rank {self.rank} (process {self.pid} on {self.host})"


class Node(NamedTuple):
    """Ranks of one machine with an agent. `agent`: its rank; None: it is a child of the driver."""

    number: int
    agent: int | None
    ranks: tuple[int, ...]
    workers: int
    cpus: frozenset[int]  # of all ranks: a launcher may have bound each to one
    host: str
    address: str

    def described(self) -> dict[str, Any]:
        """The node as forklift.cluster.placement reads it."""
        return {
            "NodeID": f"mpi-{self.number}",
            "NodeManagerHostname": self.host,
            "NodeManagerAddress": self.address,
            "Alive": True,
            "Resources": {"CPU": float(self.workers)},
        }


def this_rank(rank: int, machine: int, version: str) -> Rank:
    """The description of this process."""
    with open("/proc/sys/kernel/random/boot_id") as file:
        boot = file.read().strip()
    return Rank(
        rank,
        machine,
        socket.gethostname(),
        _address(),
        os.getpid(),
        f"{boot} {os.readlink('/proc/self/ns/pid')}",
        frozenset(os.sched_getaffinity(0)),
        version,
    )


def _address() -> str:
    """The address of this machine towards others; the loopback's if it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # a documentation address: nothing is sent, a route is looked up
            address: str = probe.getsockname()[0]
            return address
        except OSError:
            pass
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return "127.0.0.1"


def grouped(ranks: list[Rank], environment: Mapping[str, str]) -> list[Node]:
    """The nodes, the driver's own first. ValueError for a group size that is no positive number."""
    size = _group_size(environment)
    machines: dict[int, list[Rank]] = {}
    for each in ranks:
        machines.setdefault(each.machine, []).append(each)
    groups: list[list[Rank]] = []
    for members in machines.values():
        step = size or len(members)
        groups += [members[begin : begin + step] for begin in range(0, len(members), step)]
    groups.sort(key=lambda members: members[0].rank)
    return [_node(number, members) for number, members in enumerate(groups)]


def _group_size(environment: Mapping[str, str]) -> int:
    text = environment.get(GROUP_VARIABLE, "").strip()
    if not text:
        return 0
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"{GROUP_VARIABLE} must be the number of ranks of a node, 1 or more, not {text!r}")
    return int(text)


def _node(number: int, members: list[Rank]) -> Node:
    cpus = frozenset().union(*[each.cpus for each in members])
    workers = len(members) if len(members) > 1 else len(cpus)
    agents = [each.rank for each in members if each.rank != 0]
    first = members[0]
    return Node(
        number,
        agents[0] if agents else None,
        tuple(each.rank for each in members),
        workers,
        cpus,
        first.host,
        first.address,
    )

"""What the driver and the node agents tell each other; transports pickle these classes by name.

A batch is a number of tasks of one call that are sent, and reported, together. Its tasks are named by their
places in it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["Batch", "Layout", "Plan", "Reply", "Report", "Shared"]


class Plan(NamedTuple):
    """How an agent makes its pool of workers."""

    workers: int
    base: int  # the number of its first worker
    initializer: Any  # packed: the function and its arguments; None: there is none
    finalizer: Any  # packed
    most_tasks: int
    most_memory: int
    warm_spare: bool
    nested: bool
    log_level: int | None  # None: the workers' log records stay in the workers
    authkey: bytes
    sys_path: list[str]  # the driver's; an agent takes from it what exists on its node
    advice: str = ""  # what to do if a node does not have the program's modules


class Batch(NamedTuple):
    """Tasks for an agent."""

    number: int  # unique among those of a driver's pool
    function: Any  # (pickle, whether each task gets a copy of its own), or the number of a shared object
    style: int  # see forklift.cluster.tasks
    plain: bool  # the arguments travel as they are
    arguments: list[Any]  # for each task: its arguments, or their pickle
    buffers: dict[int, list[Any]] | None  # by place: the buffers of the arguments
    shared: dict[int, list[int]] | None  # by place: the numbers of the shared objects
    seconds: float  # that each task may take; 0: no limit


class Shared(NamedTuple):
    """An object that a node gets once, for all of its workers."""

    number: int
    kind: str  # "pickle", "frozen" (a container that forklift.freeze makes), "function", "fresh function"
    content: Any  # (pickle, buffers), or a reference to that in the transport's store


class Report(NamedTuple):
    """Ended tasks of a batch."""

    batch: int
    places: list[int] | None  # None: all, in order
    values: list[Any]
    failures: dict[int, tuple[Any, ...]] | None  # by place: what forklift.cluster.outcomes returns


class Reply(NamedTuple):
    """What an agent has to tell."""

    number: int
    reports: list[Report]
    pids: list[int]  # of the workers
    task_seconds: float  # a task's mean duration in this time; 0: none ended
    records: list[Any]  # log records of the workers


class Layout(NamedTuple):
    """Where the ranks of a group are, as one of their nodes is told. Ranks are numbered from node to node."""

    group: str  # its name
    node: int  # the place of this node
    name: str  # of this node
    counts: list[int]  # how many ranks each node has

    def ranks(self) -> range:
        """The ranks of this node."""
        first = sum(self.counts[: self.node])
        return range(first, first + self.counts[self.node])

    def node_of(self, rank: int) -> int:
        """The place of a rank's node."""
        node = 0
        while rank >= self.counts[node]:
            rank -= self.counts[node]
            node += 1
        return node

"""A pool whose workers are on all nodes of a cluster: of Ray's, or of an MPI job.

    with mp.get_context("ray").Pool() as pool:
        pool.map(render, scenes, retries=1)
        print(*pool.nodes(), sep="\\n")

It is the local pool with another engine: the calls, their options, results and exceptions are the local
pool's own code.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterable
from multiprocessing import process as _std_process
from typing import Any, NamedTuple

from forklift.cluster.core import Core
from forklift.cluster.job import Job
from forklift.cluster.packing import Packer
from forklift.cluster.roster import Roster
from forklift.cluster.transport import Transport
from forklift.cluster.wire import Plan
from forklift.errors import NotAcrossNodesError
from forklift.multiprocessing import pool as pools
from forklift.multiprocessing._pool import options

__all__ = ["Node", "Pool"]


class Node(NamedTuple):
    """A node of a pool; `Pool.nodes` returns these."""

    node_id: str
    name: str  # the host's name
    address: str
    state: str  # "starting", "ready", "broken", "closing"
    workers: int
    running: int  # tasks that workers run
    waiting: int  # tasks that wait on the node
    ended: int  # tasks that the node has ended
    pid: int  # of the agent; 0: not known yet
    pids: tuple[int, ...]  # of the workers


class _Worker:
    """Stands for a worker process of a node in ``pool._pool``, which programs count."""

    def __init__(self, node: str, pid: int | None) -> None:
        self.node = node
        self.pid = pid  # None: not known yet

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Worker) and (other.node, other.pid) == (self.node, self.pid)

    def __hash__(self) -> int:
        return hash((self.node, self.pid))


class Pool(pools.Pool):
    """A pool of workers on the nodes of a cluster, made by a cluster's context. The options are those of the
    local pool, and besides:

    ``processes``  how many workers on all nodes; None: as many as the nodes have room for

    ``cpus`` raises NotAcrossNodesError. ValueError if no node can hold a worker. ``transport`` is called when
    the options have been checked.
    """

    _job = Job

    def __init__(
        self,
        processes: int | None = None,
        initializer: Callable[..., object] | None = None,
        initargs: Iterable[Any] = (),
        maxtasksperchild: int | None = None,
        context: Any = None,
        *,
        transport: Callable[[], Transport],
        finalizer: Callable[[], object] | None = None,
        timeout: float | None = None,
        retries: int = 0,
        warm_spare: bool = False,
        max_memory: int | None = None,
        cpus: Any = None,
        nested: bool = False,
        log: bool = False,
    ) -> None:
        self._ctx = context
        wanted = None if processes is None else options.processes_of(processes)
        most_tasks = options.tasks_of(maxtasksperchild)
        if initializer is not None and not callable(initializer):
            raise TypeError("initializer must be a callable")
        if finalizer is not None and not callable(finalizer):
            raise TypeError("finalizer must be a callable")
        if options.cpus_of(cpus):
            raise NotAcrossNodesError(
                f"cpus= names processors of one machine, and nodes differ: {context.instead_of_cpus}"
            )
        self._defaults = (
            0.0 if timeout is None else options.seconds_of(timeout),
            options.retries_of(retries),
        )
        most_memory = options.bytes_of(max_memory)
        self._maxtasksperchild = maxtasksperchild
        self._initializer = initializer
        self._initargs = initargs
        self._log = None
        plan = Plan(
            workers=0,
            base=0,
            initializer=None if initializer is None else Packer().pack((initializer, tuple(initargs))),
            finalizer=None if finalizer is None else Packer().pack(finalizer),
            most_tasks=most_tasks,
            most_memory=most_memory,
            warm_spare=warm_spare,
            nested=nested,
            log_level=logging.getLogger().getEffectiveLevel() if log else None,
            authkey=bytes(_std_process.current_process().authkey),
            sys_path=[path or os.getcwd() for path in sys.path],
        )
        made = transport()
        room = sum(made.capacity(node) for node in made.nodes())
        if not room:
            raise ValueError(made.describe())
        self._processes = room if wanted is None else wanted
        plan = plan._replace(advice=made.advice)
        self._core = Core(Roster(wanted, plan, made), made)
        self._begin()

    @property
    def _pool(self) -> list[Any]:  # type: ignore[override]
        """A private name of the standard library's: the workers, also those that are being started."""
        known, starting = [], []
        for agent in self._core.agents() if self._core is not None else ():
            known += [_Worker(agent.node_id, pid) for pid in agent.pids]
            starting += [_Worker(agent.node_id, None)] * (agent.workers - len(agent.pids))
        return known + starting

    def nodes(self) -> list[Node]:
        """The nodes that the pool uses now: who is there, how busy it is, and how much waits there.

        Tasks that wait for a node to have room are with the driver; `waiting` has their number.
        """
        return [
            Node(
                agent.node_id,
                agent.name,
                agent.address,
                agent.state,
                agent.workers,
                min(agent.tasks, agent.workers),
                max(agent.tasks - agent.workers, 0),
                agent.ended,
                agent.pid,
                tuple(agent.pids),
            )
            for agent in self._core.agents()
        ]

    def waiting(self) -> int:
        """The number of tasks that wait in this process for a node that has room."""
        waiting: int = self._core.waiting()
        return waiting

"""Ranks on the nodes of a Ray cluster: processes that stop together, and are a group for collectives.

ctx = mp.get_context("ray")
ctx.spawn(train, (shards,), nprocs=8)     # train(rank, shards), whose dist.group() has eight ranks
"""

from __future__ import annotations

import os
import secrets
import sys
import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from multiprocessing import process as _std_process
from typing import Any

import ray

from forklift.cluster import engine, placement
from forklift.cluster.packing import Packer
from forklift.cluster.process import Process
from forklift.cluster.rank_host import host_class
from forklift.cluster.wire import Layout
from forklift.multiprocessing._ranks.failures import error_of

__all__ = ["Rank", "Ranks", "spawn"]

# How often a group looks which of its processes have ended, in seconds.
_LOOK_SECONDS = 0.2


class Rank(Process):
    """One process of a group. ``host``: the actor that has started it as the ``local``-th of its node."""

    def __init__(self, host: Any, local: int, rank: int, pid: int, daemon: bool) -> None:
        super().__init__(name=f"RayRank-{rank}", daemon=daemon)
        self._host, self._local, self._pid = host, local, pid
        self._end = host.wait.remote(local)
        self._last()

    def _send(self, number: int) -> Any:
        return self._host.send_signal.remote(self._local, number)


class Ranks:
    """The processes of `spawn`."""

    def __init__(self, processes: list[Rank], hosts: list[Any]) -> None:
        self.processes = processes
        # Hosts know each other, so none would end by itself.
        self._release = weakref.finalize(self, _kill, hosts)

    def pids(self) -> list[int | None]:
        return [each.pid for each in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait at most so many seconds; tells whether all have ended.

        When one fails, the others get SIGTERM, and SIGKILL after ``grace_period`` seconds (None: 30). Raises
        ProcessRaisedException or ProcessExitedException, which name the rank.
        """
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            codes = [each.exitcode for each in self.processes]
            if any(codes):
                self._stop(30.0 if grace_period is None else grace_period)
                failed = [each.failure(rank) for rank, each in enumerate(self.processes) if codes[rank]]
                found = [each for each in failed if each is not None]
                self._release()
                raise error_of(sorted(found, key=lambda each: -each.weight))
            if None not in codes:
                self._release()
                return True
            left = _LOOK_SECONDS if until is None else min(_LOOK_SECONDS, until - time.monotonic())
            if left <= 0:
                return False
            running = [each._end for each in self.processes if each._outcome is None]
            ray.wait(running, timeout=left)

    def _stop(self, grace_period: float) -> None:
        until = time.monotonic() + grace_period
        for each in self.processes:
            each.terminate()
        for each in self.processes:
            each.join(max(until - time.monotonic(), 0))
            each.kill()


def spawn(
    fn: Callable[..., object],
    args: Iterable[Any] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    ray_remote_args: Mapping[str, Any] | None = None,
) -> Ranks | None:
    """Run fn(rank, *args) in `nprocs` processes on the nodes; they stop together at the first failure.

    Ranks are numbered from node to node, and spread as a pool's workers are; ``ray_remote_args`` are those of
    a pool. In a rank ``forklift.collectives.group()`` is the group of all. ValueError: no node can hold one.
    """
    engine.connect()
    remote = dict(ray_remote_args or {})
    usable = {node["NodeID"]: node for node in engine.nodes()}
    room = {name: placement.capacity(node, remote) for name, node in usable.items()}
    room = {name: count for name, count in room.items() if count}
    if nprocs and not room:
        raise ValueError(placement.describe(list(usable.values()), remote))
    given = placement.spread(nprocs, room, {}) if nprocs else {}
    counts = list(given.values())
    packed = Packer().pack((fn, tuple(args)))
    token = "forklift-" + secrets.token_hex(8)
    hosts = [
        host_class(count, len(counts)).options(**engine.actor_options(remote, name, count)).remote()
        for name, count in given.items()
    ]
    authkey = bytes(_std_process.current_process().authkey)
    paths = [path or os.getcwd() for path in sys.path]
    ranks: list[Rank] = []
    try:
        layouts = [
            Layout(token, place, usable[name]["NodeManagerHostname"], counts)
            for place, name in enumerate(given)
        ]
        begun = [
            host.begin.remote(packed, layout, authkey, paths)
            for host, layout in zip(hosts, layouts, strict=True)
        ]
        for host, layout, pids in zip(hosts, layouts, ray.get(begun), strict=True):
            for local, (rank, pid) in enumerate(zip(layout.ranks(), pids, strict=True)):
                ranks.append(Rank(host, local, rank, pid, daemon))
        ray.get([host.join_up.remote(hosts) for host in hosts])
    except BaseException:
        _kill(hosts)
        raise
    group = Ranks(ranks, hosts)
    if not join:
        return group
    group.join()
    return None


def _kill(hosts: list[Any]) -> None:
    for host in hosts:
        try:
            ray.kill(host)
        except Exception:
            pass  # the cluster is gone, and the actor with it

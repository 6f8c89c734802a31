"""The actor that runs the ranks of one node, as its children, and their collectives' step to other nodes.

The ranks of a node are a group in its shared memory (forklift.cluster.node_group). The first of them, the
leader, hands its host what is to be combined with other nodes' parts, in memory that both see.

Each host tells the others, through the first host, when a rank has ended or a node was lost: a step that can
never be done fails then, within `_PATIENCE` seconds.
"""

from __future__ import annotations

import os
import signal
import threading
from multiprocessing import connection
from typing import Any

import ray

import forklift.multiprocessing
from forklift import _core
from forklift.cluster import between, tasks
from forklift.cluster.agent import settle_in
from forklift.cluster.wire import Layout
from forklift.multiprocessing._ranks.rank import Place

__all__ = ["RankHost", "host_class"]

# A step may be over on this node only after another node's rank has ended in good order.
_PATIENCE = 1.0
# After a failed step: for so long it is waited for the news of which rank or node has ended, in seconds.
_LONGEST_NEWS = 30.0


class RankHost:
    """What runs in the actor."""

    def __init__(self) -> None:
        self._news = threading.Condition()
        self._ended: tuple[str, str] | None = None  # why the group cannot be used: kind and words
        self._processes: list[Any] = []
        self._ends: list[Any] = []

    @ray.method(concurrency_group="control")  # type: ignore[untyped-decorator]
    def begin(self, packed: Any, layout: Layout, authkey: bytes, sys_path: list[str]) -> list[int]:
        """Start this node's ranks. Returns their process ids."""
        settle_in(authkey, sys_path)
        context = forklift.multiprocessing.get_context("forkserver")
        data, buffers = packed
        content = (bytes(data), [bytes(each) for each in buffers])
        self._layout = layout
        self._requests, self._answers = context.SimpleQueue(), context.SimpleQueue()
        ranks = layout.ranks()
        memory = _core._create_group(len(ranks))
        for local, rank in enumerate(ranks):
            ends = context.SimpleQueue()
            queues = (self._requests, self._answers)
            arguments = (content, ends, authkey, Place(local, memory), layout, rank, queues)
            process = context.Process(target=tasks.run_rank, args=arguments, name=f"RayRank-{rank}")
            process.start()
            self._processes.append(process)
            self._ends.append(ends)
        return [each.pid for each in self._processes]

    @ray.method(concurrency_group="control")  # type: ignore[untyped-decorator]
    def join_up(self, hosts: list[Any]) -> None:
        """Begin to watch, and to serve the leader. `hosts`: of all nodes, in order."""
        threading.Thread(target=self._watch_ranks, name="RankHostWatch", daemon=True).start()
        if len(hosts) > 1:
            watched = hosts[1:] if self._layout.node == 0 else hosts[:1]
            threading.Thread(target=self._watch_hosts, args=(watched,), daemon=True).start()
            threading.Thread(target=self._serve, name="RankHostServe", daemon=True).start()

    @ray.method(concurrency_group="wait")  # type: ignore[untyped-decorator]
    def wait(self, local: int) -> tuple[int, Any]:
        """Wait for a rank's end: its exit code, and the description of the exception that ended it."""
        connection.wait([self._processes[local].sentinel])
        with self._news:  # a process is joined by one thread at a time
            self._processes[local].join()
        ends = self._ends[local]
        return self._processes[local].exitcode, None if ends.empty() else ends.get()

    @ray.method(concurrency_group="control")  # type: ignore[untyped-decorator]
    def send_signal(self, local: int, number: int) -> None:
        """Send a signal to a rank, if it runs."""
        with self._news:
            if self._processes[local].exitcode is None:
                os.kill(self._processes[local].pid, signal.Signals(number))

    @ray.method(concurrency_group="watch")  # type: ignore[untyped-decorator]
    def first_end(self) -> tuple[str, str]:
        """Wait until this host knows of a rank or a node that has ended, and say which."""
        with self._news:
            self._news.wait_for(lambda: self._ended)
            assert self._ended is not None
            return self._ended

    # --- who has ended

    def _note_end(self, kind: str, words: str) -> None:
        with self._news:
            self._ended = self._ended or (kind, words)
            self._news.notify_all()

    def _watch_ranks(self) -> None:
        sentinels = [each.sentinel for each in self._processes]
        local = sentinels.index(connection.wait(sentinels)[0])
        rank, pid = self._layout.ranks()[local], self._processes[local].pid
        where = f"rank {rank} (pid {pid} on node {self._layout.name})"
        self._note_end("died", f"{where} of the group has ended: the group cannot be used any more")

    def _watch_hosts(self, hosts: list[Any]) -> None:
        waited = {host.first_end.remote(): host for host in hosts}
        done, _ = ray.wait(list(waited), num_returns=1)
        try:
            self._note_end(*ray.get(done[0]))
        except ray.exceptions.RayError as error:
            lost = str(error).strip().splitlines()[0]
            self._note_end("died", f"a rank's node was lost, as seen on node {self._layout.name}: {lost}")

    # --- the leader's requests

    def _serve(self) -> None:
        while True:
            name, seconds, *arguments = self._requests.get()
            if name == "give up":
                self._note_end("broken", *arguments)
            else:
                self._answers.put(self._outcome_of(name, seconds, arguments))

    def _outcome_of(self, name: str, seconds: float | None, arguments: list[Any]) -> tuple[str, str]:
        """Do a step. Returns what Steps raises: a kind of error and words; "" and "" if it was done."""
        if self._ended is not None and self._ended[0] == "broken":
            return self._ended  # the ranks that broke it may have begun a step, which this one would complete
        state: list[Exception | None] = []

        def do() -> None:
            error = None
            try:
                between.call(self._layout, name, *arguments)
            except Exception as raised:
                error = raised
            with self._news:
                state.append(error)
                self._news.notify_all()

        threading.Thread(target=do, name="RankHostStep", daemon=True).start()
        with self._news:
            in_time = self._news.wait_for(lambda: state or self._ended is not None, seconds)
            if in_time:
                self._news.wait_for(lambda: state, _PATIENCE)
            if state == [None]:
                return "", ""
            if in_time and self._news.wait_for(lambda: self._ended, _LONGEST_NEWS if state else 0):
                assert self._ended is not None
                return self._ended
        if state:
            return "broken", f"the step between nodes has failed: {state[0]!r}"
        where = f"the ranks of node {self._layout.name}"
        self._note_end("broken", f"{where} have given a collective up after {seconds:.1f} s")
        return "late", f"{name}: the other nodes had not come in time"


def host_class(ranks: int, nodes: int) -> Any:
    """The host as an actor's class, to be given options."""
    groups = {"control": 1, "wait": ranks, "watch": nodes}
    return ray.remote(concurrency_groups=groups, max_restarts=0, max_task_retries=0)(RankHost)

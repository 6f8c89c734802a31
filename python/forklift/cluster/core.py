"""The engine of a cluster's pool in the driver: tasks wait here, and node agents get them as they have room.

One thread, the dispatcher, sends batches and takes replies; it alone changes what is known of agents. An
agent gets as many tasks as its workers have room for and a few milliseconds' work more, so tasks wait in the
driver, where the next free worker of any node can have them. A task that an agent lost is sent to another
one as often as its ``retries`` say, and ends once.

The class has the methods of forklift._core.PoolCore that the local pool's parts call.
"""

from __future__ import annotations

import itertools
import logging
import os
import queue
import threading
import time
from collections.abc import Callable
from typing import Any

from forklift.cluster.agents import AgentHandle, Sent
from forklift.cluster.ends import Ends, stop
from forklift.cluster.pending import Pending
from forklift.cluster.records import handle_records
from forklift.cluster.roster import Roster
from forklift.cluster.segment import Segment
from forklift.cluster.sharing import SharedObjects
from forklift.cluster.transport import Transport
from forklift.cluster.wire import Reply, Report

__all__ = ["Core"]

_log = logging.getLogger(__name__)
# How often the nodes are looked at, in seconds.
_LOOK_SECONDS = 1.0
# Tasks that have waited on a node for so long are given to free workers of another node, in seconds.
_BALANCE_SECONDS = 0.05
# After so many seconds an agent that could not be reached is asked again.
_AGAIN_SECONDS = 0.5


class Core:
    """See the module. `roster` says which agents there are to be, `transport` reaches them."""

    AT_ONCE = 4096  # items that are packed at a time

    def __init__(self, roster: Roster, transport: Transport) -> None:
        self._roster = roster
        self._transport = transport
        self.own = transport.own
        self._owner = os.getpid()
        self._pending = Pending()
        self._woken = False
        self._events: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._told: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._numbers = itertools.count(1)
        self.objects = SharedObjects(transport.store, self._numbers)
        self._agents: list[AgentHandle] = []
        self._closing = False
        self._looked = 0.0
        self._round = 0.0  # seconds that a step takes, of the longest ones lately
        self._due: list[tuple[float, Callable[[], None]]] = []  # what is done at a time
        self._over = threading.Event()
        self.stopped = False
        self._start()

    def _start(self) -> None:
        """Run the dispatcher in a thread of its own."""
        threading.Thread(target=self._run, name="ClusterPool", daemon=True).start()

    # --- what jobs call

    def _check_owner(self) -> None:
        if os.getpid() != self._owner:
            raise ValueError("Pool not running: it belongs to another process")

    def wait_for_room(self, patient: bool) -> bool:
        """See Pending.wait_for_room. ValueError in a forked child."""
        self._check_owner()
        return self._pending.wait_for_room(patient)

    def enqueue(self, segment: Segment) -> None:
        """Take tasks. If the pool was stopped, they end at once."""
        if not self._pending.put(segment):
            stop(segment, list(range(len(segment))))
        elif not self._woken:
            self._woken = True
            self._events.put(self._nothing)

    # --- what the pool calls

    def note_ended(self, number: int) -> None:
        self._told.put(number)

    def next_ended(self) -> int | None:
        """The number of the next call that has ended; None: no more is noted."""
        return self._told.get()

    def end_notices(self) -> None:
        self._told.put(None)

    def close(self) -> None:
        """Accept no more tasks; agents end in good order when all have ended."""
        self._check_owner()
        self._closing = True
        self._events.put(self._nothing)

    def terminate(self) -> None:
        """End all agents at once; tasks that have not ended fail."""
        if os.getpid() != self._owner:
            return
        self.stopped = self._closing = True
        self._pending.close()
        self._events.put(self._nothing)

    def join(self, timeout: float | None) -> bool:
        """Wait at most so many seconds until all agents have ended; tells whether they have."""
        if os.getpid() != self._owner:
            return False
        return self._over.wait(timeout)

    def waiting(self) -> int:
        """The number of tasks that no agent has yet."""
        return self._pending.tasks

    def agents(self) -> list[AgentHandle]:
        return list(self._agents)

    # --- the dispatcher

    def _nothing(self) -> None:
        self._woken = False

    def _run(self) -> None:
        while True:
            try:
                self._step()
                if self._is_over():
                    break
            except Exception:
                _log.exception("the dispatcher of a pool on a cluster")
                self.stopped = True
        self.stopped = True
        self._pending.close()
        self._stop_all()
        self._over.set()

    def _step(self) -> None:
        next_look = min([self._looked + _LOOK_SECONDS, *[at for at, _ in self._due]])
        wait = max(next_look - time.monotonic(), 0.0)
        began = time.monotonic() + wait
        try:
            event = self._events.get(timeout=wait)
            began = time.monotonic()
            event()
            while not self._events.empty():
                self._events.get()()
        except queue.Empty:
            pass
        if self.stopped:
            return
        if self._due:
            now, due = time.monotonic(), self._due
            self._due = [each for each in due if each[0] > now]
            for at, call in due:
                if at <= now:
                    call()
        if time.monotonic() >= self._looked + _LOOK_SECONDS:
            self._looked = time.monotonic()
            self._look_at_nodes()
        self._dispatch()
        if self._closing and not self._pending and not any(each.sent for each in self._agents):
            for agent in self._agents:
                if agent.state == "ready":
                    agent.end(self._later, lambda future, agent=agent: self._agent_ended(agent, future))
                elif agent.state in ("starting", "broken"):
                    agent.kill()
        self._round = max(time.monotonic() - began, 0.9 * self._round)

    def _is_over(self) -> bool:
        self._agents = [each for each in self._agents if each.state != "gone"]
        if self.stopped:
            return True
        return self._closing and not self._pending and not self._agents

    def _later(self, answer: Any, then: Callable[[Any], None]) -> None:
        """Have `then` called with the future of a call, in the dispatcher's thread."""
        answer.add_done_callback(lambda future: self._events.put(lambda: then(future)))

    def _look_at_nodes(self) -> None:
        if self._closing and not self._pending:
            return
        left = self._transport.why_left()
        if left is not None:
            for agent in [each for each in self._agents if each.state != "gone"]:
                self._lose(agent, ConnectionError("the program has left the cluster"))
            self._fail_pending(("stopped", left, None))
            return
        for agent in self._roster.more(self._agents):
            self._agents.append(agent)
            agent.start(
                self._transport.connect,
                self._later,
                lambda future, agent=agent: self._agent_ready(agent, future),
            )
        self._pending.make_room(sum(each.workers for each in self._agents))
        why = self._roster.hopeless(self._agents)
        if why:
            self._fail_pending(why)

    def _agent_ready(self, agent: AgentHandle, future: Any) -> None:
        if agent.state != "starting":
            return
        error = future.exception()
        if error is not None:
            self._lose(agent, error)
            return
        agent.pid, agent.state = future.result(), "ready"
        self._collect(agent)

    def _collect(self, agent: AgentHandle) -> None:
        if agent.state in ("ready", "broken"):
            agent.collect(self._later, lambda future: self._reply_came(agent, future))

    def _agent_ended(self, agent: AgentHandle, future: Any) -> None:
        if future.exception() is None:
            handle_records(future.result())
        agent.kill()

    # --- sending

    def _dispatch(self) -> None:
        if self._pending:
            ready = [each for each in self._agents if each.state == "ready"]
            workers = sum(each.workers for each in ready)
            for agent in sorted(ready, key=lambda each: each.tasks / each.workers):
                if not self._pending:
                    break
                agent.plan_ahead(self._round, len(self._agents) == 1)
                fair = -(-self._pending.tasks * agent.workers // workers)
                self._send_to(agent, fair)
        if not self._pending and len(self._agents) > 1 and not self._due:
            self._balance()
        forgotten = self.objects.take_forgotten()
        if forgotten:
            for agent in self._agents:
                if agent.knows(forgotten) and agent.state == "ready":
                    agent.send({}, forgotten, self._later, self._taken_by(agent))

    def _balance(self) -> None:
        """With nothing left to send: get tasks back that wait on one node while another has free workers."""
        ready = [each for each in self._agents if each.state == "ready"]
        free = sum(max(each.workers - each.tasks, 0) for each in ready)
        if not free:
            return
        waits = False
        for agent in ready:
            if agent.tasks > agent.workers:
                waits = not agent.ask_back(free, _BALANCE_SECONDS) or waits
        if waits:
            self._due.append((time.monotonic() + _BALANCE_SECONDS, lambda: None))

    def _send_to(self, agent: AgentHandle, most: int) -> None:
        """Send an agent as many tasks as it has room for, and no more than `most`."""
        batches: dict[int, Segment] = {}
        room, size = 0, agent.bytes
        while (first := self._pending.first()) is not None:
            seconds = first.job.task_seconds
            room = min(room if batches else agent.room(seconds), most)
            if room <= 0 or (batches and size >= agent.MOST_BYTES):
                break
            segment = self._pending.take(min(room, agent.batch_tasks(seconds)))
            batches[next(self._numbers)] = segment
            room -= len(segment)
            most -= len(segment)
            size += segment.bytes
        if batches:
            agent.send(batches, [], self._later, self._taken_by(agent))

    def _taken_by(self, agent: AgentHandle) -> Callable[[Any, Any], None]:
        def taken(wire: Any, future: Any) -> None:
            error = future.exception()
            if error is None or agent.state == "gone":
                return
            if isinstance(error, self._transport.unreachable):
                self._again(lambda: agent.send_wire(wire, self._later, taken))
            else:
                self._lose(agent, error)

        return taken

    def _again(self, call: Callable[[], None]) -> None:
        """Repeat a call to an agent after a while."""
        self._due.append((time.monotonic() + _AGAIN_SECONDS, call))

    # --- answers

    def _reply_came(self, agent: AgentHandle, future: Any) -> None:
        if agent.state not in ("ready", "broken", "closing"):
            return
        error = future.exception()
        if isinstance(error, self._transport.unreachable):
            self._again(lambda: self._collect(agent))
            return
        if error is not None:
            if agent.state != "closing":
                self._lose(agent, error)
            return
        reply: Reply = future.result()
        agent.acknowledge(reply)
        self._collect(agent)  # before the results are looked at: the agent goes on meanwhile
        if reply.task_seconds > 0:
            for job in {agent.sent[each.batch].segment.job for each in reply.reports}:
                job.task_seconds = (reply.task_seconds + (job.task_seconds or reply.task_seconds)) / 2
        for report in reply.reports:
            self._report_came(agent, report)
        handle_records(reply.records)

    def _report_came(self, agent: AgentHandle, report: Report) -> None:
        sent, places = agent.settle(report.batch, report.places)
        if not report.failures:
            segment = sent.segment
            indices = segment.indices if places is None else [segment.indices[each] for each in places]
            segment.job.end(Ends(indices, report.values, None))
            return
        self._some_failed(agent, sent, places or range(len(sent.segment)), report)

    def _some_failed(self, agent: AgentHandle, sent: Sent, places: Any, report: Report) -> None:
        """Tasks of a batch have ended, some of them without a value: run these again, if they may."""
        segment, failures = sent.segment, report.failures or {}
        again: list[int] = []
        unbegun: list[int] = []
        ends: list[int] = []
        values: list[Any] = []
        failed: dict[int, Any] = {}
        for at, place in enumerate(places):
            failure = failures.get(place)
            if failure is not None:
                if failure[0] == "cancelled":
                    unbegun.append(place)
                    continue
                if failure[0] == "stopped" and self._roster.has_others(self._agents, agent):
                    unbegun.append(place)
                    continue
                if failure[0] == "ended" and not failure[1] and segment.attempt < segment.retries:
                    again.append(place)
                    continue
                failed[len(ends)] = failure
            ends.append(segment.indices[place])
            values.append(report.values[at])
        if ends:
            segment.job.end(Ends(ends, values, failed or None))
        if again:
            self._pending.put_back(segment.again(again))
        if unbegun:
            self._pending.put_back(segment.anew(unbegun))
        if any(each[0] == "stopped" for each in failures.values()):
            words = next(each for each in failures.values() if each[0] == "stopped")
            self._roster.give_up(agent, words)

    def _lose(self, agent: AgentHandle, error: BaseException) -> None:
        """An agent died, with its node or alone. Run its tasks elsewhere, if they may."""
        _log.warning("the agent on node %s was lost: %s", agent.name, str(error).strip().splitlines()[0])
        agent.kill()
        self._roster.note_loss(agent, error)
        for sent in list(agent.sent.values()):
            segment, left = sent.segment, sent.left()
            if segment.attempt < segment.retries:
                self._pending.put_back(segment.again(left))
            else:
                failed = dict.fromkeys(range(len(left)), ("lost", agent.name, agent.pid))
                segment.job.end(Ends([segment.indices[each] for each in left], [None] * len(left), failed))
        agent.sent.clear()
        self._looked = 0.0  # look at the nodes at once

    # --- the end

    def _fail_pending(self, why: tuple[Any, ...]) -> None:
        while (first := self._pending.first()) is not None:
            segment = self._pending.take(len(first))
            stop(segment, list(range(len(segment))), why)

    def _stop_all(self) -> None:
        for agent in self._agents:
            agent.kill()
            for sent in list(agent.sent.values()):
                stop(sent.segment, sent.left())
            agent.sent.clear()
        self._fail_pending(("stopped", "", None))

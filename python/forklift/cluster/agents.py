"""A node agent as the driver sees it: what was sent to it, what is still out, how much more it takes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from forklift import _core
from forklift.cluster.segment import Segment, SharedObject
from forklift.cluster.transport import Link
from forklift.cluster.wire import Batch, Plan, Reply

__all__ = ["AgentHandle", "Sent"]

# For so many seconds' work an agent gets tasks ahead of its workers: the time that a reply and the next
# batches take. What is sent ahead cannot be taken by another node's free workers. A driver with so many nodes
# that it comes back to each of them later than that sends more at a time.
_AHEAD_SECONDS = 0.03
# An agent that is the only one gets so many times as much: there are no other workers that could take it.
_ALONE = 4
_MOST_AHEAD_SECONDS = 2.0
# An agent's next turn comes with the driver's next round, and its reply and tasks take their time, too.
_ROUNDS_AHEAD = 5
# A batch has tasks for so long, in seconds, while an agent gets no more than usual ahead.
_BATCH_SECONDS = 0.003
_MOST_IN_BATCH = 8192
# Tasks that an agent may have.
_MOST_TASKS = 32768
# For so long an agent without news waits before it says so, in seconds.
_SILENCE = 5.0


class Sent:
    """A batch that an agent has."""

    __slots__ = ("asked", "done", "objects", "segment", "since")

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.since = time.monotonic()
        self.asked = False  # for the tasks that have not begun
        self.done: set[int] | None = None  # places of tasks that were reported; None: no task was
        self.objects = segment.objects()

    def left(self) -> list[int]:
        """The places of the tasks that were not reported."""
        places = range(len(self.segment))
        return list(places) if self.done is None else [each for each in places if each not in self.done]


class AgentHandle:
    """See the module. Only the dispatcher's thread changes it.

    ``state``: "starting", "ready", "broken" (workers cannot be made ready), "closing" (they exit), "gone".
    """

    MOST_BYTES = 64 << 20  # of arguments that the agent may have

    def __init__(self, node: Mapping[str, Any], plan: Plan) -> None:
        self.node_id: str = node["NodeID"]
        self.name: str = node.get("NodeManagerHostname") or node["NodeManagerAddress"]
        self.address: str = node["NodeManagerAddress"]
        self.plan = plan
        self.workers = plan.workers
        self.state = "starting"
        self.pid = 0
        self.pids: list[int] = []
        self.tasks = 0
        self.bytes = 0
        self.sent: dict[int, Sent] = {}
        self.ended = 0
        self.since = time.monotonic()
        self._ahead_seconds = _AHEAD_SECONDS
        self._more = 1.0  # how many times what an idle driver sends to one of several agents
        self._busy = 0.0  # what of that is for a busy driver
        self._link: Link | None = None
        self._known: set[int] = set()
        self._acknowledged = 0

    def start(
        self, connect: Callable[[AgentHandle], Link], call: Callable[[Any, Any], None], ready: Any
    ) -> None:
        """Make the agent; `ready` is called with the future of its process id."""
        self._link = connect(self)
        call(self._link.begin(self.plan, _core.__version__), ready)

    # --- tasks

    def batch_tasks(self, task_seconds: float) -> int:
        """How many tasks of this duration a batch has; 0: the duration is not known."""
        if task_seconds <= 0:
            return max(self.workers // 8, 1)
        few = min(int(4 * self._busy), 4 * self.workers)  # a batch has its price for a busy driver
        return min(max(int(self._more * _BATCH_SECONDS / task_seconds), few, 1), _MOST_IN_BATCH)

    def plan_ahead(self, round_seconds: float, alone: bool = False) -> None:
        """Take in how long the driver takes for a round of all agents, and whether this one is alone."""
        usual = _AHEAD_SECONDS * (_ALONE if alone else 1)
        ahead = min(usual + _ROUNDS_AHEAD * round_seconds, _MOST_AHEAD_SECONDS)
        self._ahead_seconds, self._more = ahead, ahead / _AHEAD_SECONDS
        self._busy = (ahead - usual) / _AHEAD_SECONDS

    def room(self, task_seconds: float) -> int:
        """How many more tasks of this duration the agent takes."""
        if self.bytes >= self.MOST_BYTES:
            return 0
        ahead = self._ahead(task_seconds)
        room = self.workers + ahead - self.tasks
        # With tasks before its workers still, an agent is not sent one by one.
        return room if room >= ahead // 4 or self.tasks < self.workers else 0

    def _ahead(self, task_seconds: float) -> int:
        if task_seconds <= 0:
            return self.workers
        ahead = math.ceil(min(self.workers * self._ahead_seconds / task_seconds, float(_MOST_TASKS)))
        return min(ahead, max(_MOST_TASKS - self.workers, 1))

    def send(
        self, batches: dict[int, Segment], forgotten: list[int], call: Callable[[Any, Any], None], taken: Any
    ) -> None:
        """Send batches, and what they share with others if the agent has not got it yet.

        `taken` is called as by `send_wire` when the agent has them.
        """
        shared: dict[int, SharedObject] = {}
        wire: list[Batch] = []
        for number, segment in batches.items():
            sent = self.sent[number] = Sent(segment)
            self.tasks += len(segment)
            self.bytes += segment.bytes
            wire.append(segment.batch(number))
            for each in sent.objects:
                if each.shared.number not in self._known:
                    self._known.add(each.shared.number)
                    shared[each.shared.number] = each
        dropped = [number for number in forgotten if number in self._known]
        self._known.difference_update(dropped)
        content = [each.shared for each in shared.values()]
        self.send_wire((wire, content, dropped), call, taken)

    def send_wire(self, wire: Any, call: Callable[[Any, Any], None], taken: Any) -> None:
        """Call the agent's `submit`; `taken` is called with what was sent and the future."""
        if self._link is not None:  # the agent was lost meanwhile otherwise
            call(self._link.submit(*wire), lambda future: taken(wire, future))

    def settle(self, number: int, places: list[int] | None) -> tuple[Sent, list[int] | None]:
        """Note that tasks of a batch have ended. Returns the batch and their places; None: all of it."""
        sent = self.sent[number]
        segment = sent.segment
        count = len(segment) if places is None else len(places)
        self.tasks -= count
        self.ended += count
        if places is not None:
            sent.done = sent.done or set()
            sent.done.update(places)
        if places is None or len(sent.done or ()) == len(segment):
            del self.sent[number]
            self.bytes -= segment.bytes
        return sent, places

    def knows(self, numbers: list[int]) -> bool:
        """Tells whether the agent has any of these shared objects."""
        return not self._known.isdisjoint(numbers)

    def ask_back(self, most: int, patience: float) -> bool:
        """Ask for tasks that wait here, those sent last first, for another agent's free workers.

        At most about so many, and of batches only that were sent `patience` seconds ago. False: there are
        younger ones.
        """
        before = time.monotonic() - patience
        most = min(most, self.tasks - self.workers)
        numbers: list[int] = []
        for number, sent in reversed(self.sent.items()):
            if most <= 0:
                break
            if sent.asked:
                most -= len(sent.segment)
            elif sent.since < before:
                sent.asked = True
                numbers.append(number)
                most -= len(sent.segment)
        if numbers and self._link is not None:
            self._link.give_back(numbers)
        return most <= 0

    # --- answers and the end

    def collect(self, call: Callable[[Any, Any], None], came: Any) -> None:
        """Ask for what has ended; `came` is called with the future of the reply."""
        if self._link is not None:
            call(self._link.collect(self._acknowledged, _SILENCE), came)

    def acknowledge(self, reply: Reply) -> None:
        self._acknowledged = reply.number
        self.pids = reply.pids

    def end(self, call: Callable[[Any, Any], None], ended: Any) -> None:
        """Let the workers exit in good order; `ended` is called with a future then."""
        self.state = "closing"
        if self._link is not None:
            call(self._link.end(), ended)

    def kill(self) -> None:
        """End the agent and its workers at once."""
        self.state = "gone"
        link, self._link = self._link, None
        if link is not None:
            link.kill()

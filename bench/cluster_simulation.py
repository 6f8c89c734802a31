"""A cluster's pool on many simulated nodes: the real scheduler, with simulated agents, network and time.

    python bench/cluster_simulation.py --nodes 1000 --workers 64 --task 0.05 --seconds 3 --warm 5

The driver runs the code of forklift.cluster (Job, Core, Roster, AgentHandle); only its clock and its
transport are simulated. Time passes in the driver as its code takes processor time on this machine, measured;
all that the driver does counts as one thread's, as if Python's lock were never free for two. What is not run
is assumed, and said in the result:

- the network: so many seconds for each message each way, so many bytes a second into and out of the driver;
- a call of the transport costs the driver so many seconds besides the pickling, which is run;
- an agent takes so many seconds for each message and each task; its workers take tasks in order, and a worker
  takes `--gap` seconds between two tasks;
- the cyclic garbage collector takes no time: here it would go through the simulated nodes, too;
- a task takes half of its mean duration, and an exponentially distributed time with the other half as its
  mean.

Utilisation is the workers' time in tasks over all of their time, from `--warm` seconds on; the tasks never
end.
"""

from __future__ import annotations

import argparse
import collections
import gc
import heapq
import itertools
import json
import pickle
import queue
import random
import resource
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from typing import Any

from forklift.cluster import agents, core, job
from forklift.cluster.gathering import Gathering
from forklift.cluster.roster import Roster
from forklift.cluster.wire import Batch, Plan, Reply, Report
from forklift.multiprocessing._pool.label import Label


@dataclass(frozen=True)
class Assumed:
    """What is not measured but assumed. Times in seconds."""

    nodes: int = 1000
    workers: int = 64
    task: float = 0.05
    latency: float = 100e-6  # one way
    bandwidth: float = 1.25e9  # of the driver's network, bytes a second each way
    call: float = 20e-6  # of the driver, for each call of an agent and each answer
    agent_message: float = 50e-6
    agent_task: float = 5e-6
    gap: float = 10e-6
    driver: float = 1.0  # how many times as long the driver's code takes as measured here


class World:
    """Virtual time, and what happens when."""

    def __init__(self) -> None:
        self.now = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    def at(self, when: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._events, (max(when, self.now), next(self._numbers), what))

    def next_event(self) -> float:
        return self._events[0][0] if self._events else float("inf")

    def run_until(self, when: float) -> None:
        """Let everything happen that happens until then."""
        while self._events and self._events[0][0] <= when:
            self.now, _, what = heapq.heappop(self._events)
            what()
        self.now = max(self.now, when)


class _Clock:
    """Stands for the module `time` in the scheduler's modules."""

    def __init__(self, world: World, transport: Transport) -> None:
        self._world, self._transport = world, transport

    def monotonic(self) -> float:
        return self._world.now + self._transport.spent()


class _Events(queue.SimpleQueue):  # type: ignore[type-arg]
    """The dispatcher's queue of events: it never waits, since the simulation knows when something comes."""

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        return super().get(block=False)


class _Open:
    """A batch on a node: when each task ends, and which were reported."""

    def __init__(self, batch: Batch, now: float) -> None:
        self.number = batch.number
        self.since = now
        self.starts: list[float] = []
        self.ends: list[float] = []
        self.reported: set[int] = set()
        self.cancelled: set[int] = set()


class Node:
    """An agent and its workers, as NodePool has them: it reports whole batches, and late ones in parts.

    When it replies is decided by the agents' own code, `Gathering`.
    """

    PATIENCE = 0.05
    SILENCE = 5.0

    def __init__(self, world: World, assumed: Assumed, rng: random.Random, work: list[float]) -> None:
        self._world, self._assumed, self._rng, self._work = world, assumed, rng, work
        self._free = [0.0] * assumed.workers  # when each worker is free
        self._open: dict[int, _Open] = {}
        self._busy_until = 0.0  # of the agent itself
        self._asked: Callable[[Reply], None] | None = None
        self._number = 0
        self._waking = float("inf")
        self._gathering = Gathering(assumed.workers)

    def submit(self, batches: list[Batch]) -> None:
        """Take batches, which have just arrived."""
        assumed, now = self._assumed, self._world.now
        count = sum(len(each.arguments) for each in batches)
        self._busy_until = max(self._busy_until, now) + assumed.agent_message + count * assumed.agent_task
        for batch in batches:
            opened = self._open[batch.number] = _Open(batch, now)
            for _ in batch.arguments:
                free = heapq.heappop(self._free)
                begin = max(free + assumed.gap, self._busy_until)
                seconds = assumed.task * (0.5 + self._rng.expovariate(2.0))  # mean 1.0
                heapq.heappush(self._free, begin + seconds)
                opened.starts.append(begin)
                opened.ends.append(begin + seconds)
        self._tell()

    def collect(self, answer: Callable[[Reply], None]) -> None:
        """Answer when something has ended, as NodePool.collect does."""
        self._asked = answer
        self._tell()

    def _ready(self, each: _Open, now: float) -> float:
        """When the batch has something to report."""
        left = [end for place, end in enumerate(each.ends) if place not in each.reported]
        through = max(left)
        if len(each.ends) == 1:
            return through
        return min(through, max(min(left), each.since + self.PATIENCE, now))

    def _tell(self) -> None:
        """Reply if there is something to report, or look again when there will be."""
        if self._asked is None or not self._open:
            return
        now = self._world.now
        times = [self._ready(each, now) for each in self._open.values()]
        ready = min(times)
        if ready <= now:
            left = sum(end > now for each in self._open.values() for end in each.ends)
            until = self._gathering.until(now, left)
            if until > now:  # more may gather: look again then, or when the next batch is ready
                ready = min([until, *(each for each in times if each > now)])
        if ready > now:
            if ready < self._waking:
                self._waking = ready
                self._world.at(ready, self._wake)
            return
        self._reply(now)

    def _wake(self) -> None:
        self._waking = float("inf")
        self._tell()

    def _reply(self, now: float) -> None:
        reports, seconds, count = [], 0.0, 0
        for each in list(self._open.values()):
            ended = [p for p, end in enumerate(each.ends) if end <= now and p not in each.reported]
            whole = len(ended) + len(each.reported) == len(each.ends)
            if not ended or not (whole or (len(each.ends) > 1 and each.since + self.PATIENCE <= now)):
                continue
            places = None if len(ended) == len(each.ends) else ended
            reports.append(Report(each.number, places, [0] * len(ended), None))
            each.reported.update(ended)
            spent = sum(each.ends[p] - each.starts[p] for p in ended)
            self._work[0] += spent
            seconds, count = seconds + spent, count + len(ended)
            if whole:
                del self._open[each.number]
        self._number += 1
        answer, self._asked = self._asked, None
        assert answer is not None
        reply = Reply(self._number, reports, [], seconds / count if count else 0.0, [])
        self._gathering.replied(reply.task_seconds)
        begin = max(self._busy_until, now) + self._assumed.agent_message + count * self._assumed.agent_task
        self._world.at(begin, lambda: answer(reply))


class Network:
    """The driver's connection: messages have a latency, and share its bandwidth."""

    def __init__(self, world: World, assumed: Assumed) -> None:
        self._world, self._assumed = world, assumed
        self._free = {"in": 0.0, "out": 0.0}

    def carry(self, way: str, when: float, size: int, then: Callable[[], None]) -> None:
        """Have a message of `size` bytes, sent at `when`, arrive: `then` is called."""
        begin = max(self._free[way], when)
        self._free[way] = begin + size / self._assumed.bandwidth
        self._world.at(self._free[way] + self._assumed.latency, then)


class Link:
    """Calls to one simulated agent (forklift.cluster.transport.Link)."""

    def __init__(self, transport: Transport, node: Node) -> None:
        self._transport, self._node = transport, node

    def begin(self, plan: Plan, version: str) -> Future[int]:
        return self._transport.call((plan, version), lambda done: done(1))

    def submit(self, batches: list[Batch], shared: list[Any], forgotten: list[int]) -> Future[None]:
        def take(done: Callable[[Any], None]) -> None:
            self._node.submit(batches)
            done(None)

        return self._transport.call((batches, shared, forgotten), take)

    def give_back(self, numbers: list[int]) -> None:
        pass

    def collect(self, acknowledged: int, seconds: float) -> Future[Reply]:
        return self._transport.call((acknowledged, seconds), self._node.collect)

    def end(self) -> Future[list[Any]]:
        return self._transport.call((), lambda done: done([]))

    def kill(self) -> None:
        pass


class Transport:
    """Simulated nodes (forklift.cluster.transport.Transport). Answers wait in `came` for the driver."""

    unreachable = ConnectionError
    advice = ""

    def __init__(self, world: World, assumed: Assumed) -> None:
        self._world, self._assumed = world, assumed
        self._network = Network(world, assumed)
        self.came: collections.deque[tuple[Future[Any], bytes]] = collections.deque()
        self.calls = 0
        self.spent: Callable[[], float] = float  # of the driver, since its step began
        self.work = [0.0]
        rng = random.Random(1)
        self._simulated = [Node(world, assumed, rng, self.work) for _ in range(assumed.nodes)]

    def call(self, message: Any, do: Callable[[Callable[[Any], None]], None]) -> Future[Any]:
        """Send a message; the future gets what `do` passes on."""
        future: Future[Any] = Future()
        data = pickle.dumps(message, 5)
        self.calls += 1

        def answered(value: Any) -> None:
            back = pickle.dumps(value, 5)
            self._network.carry(
                "in", self._world.now, len(back) + 100, lambda: self.came.append((future, back))
            )

        self._network.carry("out", self._world.now + self.spent(), len(data) + 100, lambda: do(answered))
        return future

    def deliver(self) -> None:
        """In the driver: take in what has come."""
        while self.came:
            future, data = self.came.popleft()
            future.set_result(pickle.loads(data))

    def nodes(self) -> list[dict[str, Any]]:
        return [
            {
                "NodeID": str(each),
                "NodeManagerHostname": f"node{each}",
                "NodeManagerAddress": "",
                "Alive": True,
            }
            for each in range(self._assumed.nodes)
        ]

    def capacity(self, node: Any) -> int:
        return self._assumed.workers

    def describe(self) -> str:
        return ""

    def connect(self, agent: Any) -> Link:
        return Link(self, self._simulated[int(agent.node_id)])

    def why_left(self) -> None:
        return None

    def store(self, content: Any) -> Any:
        return content

    def own(self, buffer: Any) -> Any:
        return buffer


class Driver(core.Core):
    """The scheduler, a step at a time instead of in a thread of its own."""

    def _start(self) -> None:
        self._events = _Events()


def identity(x: Any) -> Any:
    """What the tasks run, or would."""
    return x


@dataclass
class Found:
    """What a simulation says."""

    utilisation: float
    tasks_per_second: float
    driver_load: float  # processor seconds a second
    microseconds_per_task: float  # of the driver
    calls_per_second: float
    driver_mebibytes: float  # the largest resident size, with the simulation itself


def simulate(assumed: Assumed, seconds: float, chunk: int, warm: float = 0.0) -> Found:
    """Run tasks for so many virtual seconds; `chunk` items of a list make a task."""
    world = World()
    transport = Transport(world, assumed)
    for module in (agents, core, job):
        module.time = _Clock(world, transport)  # type: ignore[attr-defined]
    plan = Plan(0, 0, None, None, 0, 0, False, False, None, b"", [])
    driver = Driver(Roster(None, plan, transport), transport)  # type: ignore[arg-type]
    items = range(1 << 40)
    gc.disable()
    call = job.Job(driver, Label("map", identity), 1, False)
    used, rounds = 0.0, itertools.count(1)
    warm = warm or 1.0 + 4 * assumed.task
    marks: list[tuple[float, float, float, int, int]] = []
    fed = 0
    while world.now < warm + seconds:
        if not marks and world.now >= warm:
            marks.append((world.now, used, transport.work[0], call.ended(), transport.calls))
        calls, begin, waiting = transport.calls, time.thread_time_ns(), len(transport.came)

        def spent(calls: int = calls, begin: int = begin, came: int = waiting) -> float:
            own = assumed.driver * (time.thread_time_ns() - begin) / 1e9
            return own + (came + transport.calls - calls) * assumed.call

        transport.spent = spent
        transport.deliver()
        fed = call.feed(identity, items, False, chunk, fed, 1 << 20, 0.0, 0, False)
        driver._step()
        while call._next_ends(0) is not None:
            pass
        step = spent()
        transport.spent = float
        used += step
        world.run_until(world.now + step)
        if next(rounds) % 100 == 0:
            gc.collect()
        sleeps = world.now + 0.01  # what happens among the nodes does not wake the driver
        while not transport.came and driver._events.empty() and world.now < sleeps:
            world.run_until(min(world.next_event(), sleeps))
    now, load, work, ended, calls = marks[0]
    span = world.now - now
    tasks = call.ended() - ended
    return Found(
        utilisation=(transport.work[0] - work) / (span * assumed.nodes * assumed.workers),
        tasks_per_second=tasks / span,
        driver_load=(used - load) / span,
        microseconds_per_task=1e6 * (used - load) / max(tasks, 1),
        calls_per_second=(transport.calls - calls) / span,
        driver_mebibytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    )


def main() -> int:
    """Simulate, and print what was assumed and found as a line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in asdict(Assumed()).items():
        parser.add_argument("--" + name.replace("_", "-"), type=type(default), default=default)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--warm", type=float, default=0.0)
    parser.add_argument("--chunk", type=int, default=1)
    options = vars(parser.parse_args())
    seconds, chunk, warm = (options.pop(name) for name in ("seconds", "chunk", "warm"))
    assumed = Assumed(**options)
    found = simulate(assumed, seconds, chunk, warm)
    print(json.dumps({"assumed": asdict(assumed) | {"chunk": chunk}, "found": asdict(found)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())

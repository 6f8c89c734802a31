"""Rates from totals: what two looks at a domain say of the time between them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from forklift import _core

__all__ = ["Sample", "Sampler"]

_SEQUENCES = 1 << 30  # totals of messages are kept modulo this
_TASKS = 1 << 5  # trace::Category (src/trace/event.h)
_MOST_TASKS = 1_000_000  # between two looks


@dataclass
class Sample:
    """One domain at one moment. Rows are dictionaries; with an earlier look they have rates, too.

    ``seconds``: the time since that look; 0: there was none, and all rates are 0.
    """

    domain: int
    seconds: float
    arena: dict[str, Any]
    processes: list[dict[str, Any]]
    queues: list[dict[str, Any]]
    topics: list[dict[str, Any]]
    pools: list[dict[str, Any]]
    locks: list[dict[str, Any]]
    blocks: list[dict[str, Any]]


def _task_times(seconds: list[float]) -> dict[str, Any]:
    """Of the tasks that ended since the last look; None: none did, or they were not asked for."""
    ordered = sorted(seconds)
    last = len(ordered) - 1
    return {
        "ended": len(ordered),
        "median_seconds": ordered[last // 2] if ordered else None,
        "p99_seconds": ordered[round(last * 0.99)] if ordered else None,
    }


@dataclass
class _Before:
    """What a later look needs of an earlier one."""

    now_ns: int = 0
    cpu: dict[int, float] = field(default_factory=dict)
    queues: dict[tuple[int, int], dict[str, Any]] = field(default_factory=dict)
    topics: dict[int, int] = field(default_factory=dict)
    # Since when the oldest message of a queue is seen to be there: the queue's `got` then, and the time.
    oldest: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)


class Sampler:
    """Looks at the domains of a process again and again.

    ValueError, RefusedError, VersionError: as of ``forklift.why``.
    """

    def __init__(self, pid: int | None, tasks: bool = False) -> None:
        self._pid = pid
        self._surveyor = _core.Surveyor(pid)
        self._before: dict[int, _Before] = {}
        self._recorder = self._record_tasks() if tasks else None

    def _record_tasks(self) -> _core.Recorder:
        return _core.Recorder.of_process(self._pid, _TASKS, _MOST_TASKS)

    def look(self, holders: bool = False) -> list[Sample]:
        """One sample for each domain, with rates since the last call; `holders`: and who has which queue."""
        seconds: dict[int, list[float]] = {}
        if self._recorder is not None:
            for recording in self._recorder.stop():
                seconds |= recording.task_seconds()
            self._recorder = self._record_tasks()
        samples = [self._sample(survey) for survey in self._surveyor.look(holders)]
        for sample in samples:
            for pool in sample.pools:
                pool |= _task_times(seconds.get(pool["tasks"], []))
        return samples

    def _sample(self, survey: dict[str, Any]) -> Sample:
        before = self._before.get(survey["domain"], _Before())
        now = _Before(survey["now_ns"])
        seconds = (now.now_ns - before.now_ns) / 1e9 if before.now_ns else 0.0
        for process in survey["processes"]:
            pid = process["process"]
            now.cpu[pid] = process["cpu_seconds"]
            used = process["cpu_seconds"] - before.cpu.get(pid, process["cpu_seconds"])
            process["cpu_percent"] = 100 * used / seconds if seconds else 0.0
        for queue in survey["queues"]:
            self._rate_queue(queue, before, now, seconds)
        for topic in survey["topics"]:
            now.topics[topic["index"]] = topic["put"]
            new = topic["put"] - before.topics.get(topic["index"], topic["put"])
            topic["put_per_second"] = max(0, new) / seconds if seconds else 0.0
        self._before[survey["domain"]] = now
        del survey["now_ns"]
        return Sample(seconds=seconds, **survey)

    @staticmethod
    def _rate_queue(queue: dict[str, Any], before: _Before, now: _Before, seconds: float) -> None:
        key = (queue["index"], queue["generation"])
        now.queues[key] = queue
        last = before.queues.get(key, queue)

        def rate(name: str, modulus: int) -> float:
            return (queue[name] - last[name]) % modulus / seconds if seconds else 0.0

        queue["put_per_second"] = rate("put", _SEQUENCES)
        queue["got_per_second"] = rate("got", _SEQUENCES)
        queue["bytes_per_second"] = rate("put_bytes", 1 << 64)
        got, since = before.oldest.get(key, (-1, now.now_ns))
        if got != queue["got"]:
            since = now.now_ns
        now.oldest[key] = (queue["got"], since)
        # No message says when it was put. While messages are taken, the last of so many waits as long as
        # it takes to take them; while none is, the first has waited since that was seen at least.
        taken = queue["got_per_second"]
        waited = queue["length"] / taken if taken else (now.now_ns - since) / 1e9
        queue["oldest_seconds"] = waited if queue["length"] else 0.0

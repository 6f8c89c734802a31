"""Where the time of a pool's workers goes: ``pool.insights()``, and the same of an executor.

The workers record it in the pool's shared memory (src/workers/insights.h), so it is there while they work and
after they were killed. This module makes sentences of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

__all__ = ["PoolInsights", "SlowTask", "WorkerInsights", "insights_of", "ratios_of"]

# From which share of the workers' time on a cause is worth a sentence.
_MUCH_WAITING = 0.4
_MUCH_STARTING = _MUCH_ANSWERING = 0.25
# Below so many seconds of all workers together, and so many to start one, nothing is worth one.
_WORTH = 0.1
_WORTH_A_START = 0.02
# A task that takes less seconds is small: sending it costs some microseconds. Advice aims at tasks ten times
# as long.
_SMALL_TASK = 100e-6
_MANY_TASKS = 500


@dataclass(frozen=True)
class _Times:
    """What a worker, or all workers, did; times in seconds.

    started      how many processes were started, those that replace others included
    tasks        how many tasks were performed; a chunk of several items is one
    items        how many items they had; a call of ``apply`` or ``submit`` counts as one
    starting     from the start of the process until it takes tasks, the initializer included
    initializer  of that, the initializer
    waiting      for tasks
    working      reading a task's arguments, and in its function
    answering    encoding and sending the result
    """

    started: int
    tasks: int
    items: int
    starting: float
    initializer: float
    waiting: float
    working: float
    answering: float

    @property
    def total(self) -> float:
        """Seconds of worker processes: starting, waiting, working and answering together."""
        return self.starting + self.waiting + self.working + self.answering

    @property
    def starting_ratio(self) -> float:
        """The share of ``total``, from 0 to 1; as are the three that follow."""
        return self._ratio(self.starting)

    @property
    def waiting_ratio(self) -> float:
        return self._ratio(self.waiting)

    @property
    def working_ratio(self) -> float:
        return self._ratio(self.working)

    @property
    def answering_ratio(self) -> float:
        return self._ratio(self.answering)

    def _ratio(self, seconds: float) -> float:
        return seconds / self.total if self.total else 0.0


@dataclass(frozen=True)
class WorkerInsights(_Times):
    """One worker's part, by its number (``worker_id()``), with those of the processes that had it before."""

    worker: int


@dataclass(frozen=True)
class SlowTask:
    """A task that took long. ``seconds``: in the worker; ``task``: its function and arguments, shortened."""

    seconds: float
    pid: int
    task: str


@dataclass(frozen=True)
class PoolInsights(_Times):
    """What all workers of a pool did since it was made; ``str()`` has it as a table.

    elapsed   seconds since the pool was made
    workers   each worker's part
    slowest   the five slowest tasks, the slowest first
    advice    sentences on what to change; empty where nothing matters
    """

    elapsed: float
    workers: tuple[WorkerInsights, ...]
    slowest: tuple[SlowTask, ...]
    advice: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def insights_of(core: Any, start_method: str) -> PoolInsights:
    """The insights of a pool's engine; ValueError if it has none."""
    found = None if core is None else core.insights()
    if found is None:
        raise ValueError("there are no insights: make the pool with insights=True, on Forklift's engine")
    elapsed, rows, slowest = found
    workers = tuple(WorkerInsights(**_times(row), worker=index) for index, row in enumerate(rows))
    sums = [sum(column) for column in zip(*rows, strict=True)]
    insights = PoolInsights(
        **_times(sums),
        elapsed=elapsed / 1e9,
        workers=workers,
        slowest=tuple(SlowTask(ns / 1e9, pid, text) for ns, pid, text in slowest),
        advice=(),
    )
    object.__setattr__(insights, "advice", tuple(_advice(insights, sums[-3:], start_method)))
    return insights


def ratios_of(core: Any) -> str:
    """The shares of the workers' time so far, in a few words."""
    found = insights_of(core, "fork")
    return f"working {found.working_ratio:.0%}, waiting {found.waiting_ratio:.0%}"


def _times(row: list[int]) -> dict[str, Any]:
    """The fields of _Times, from a row of PoolCore.insights()."""
    starting, initializer, waiting, working, answering = (ns / 1e9 for ns in row[:5])
    started, tasks, items = row[5:8]
    return {
        "started": started,
        "tasks": tasks,
        "items": items,
        "starting": starting + initializer,
        "initializer": initializer,
        "waiting": waiting,
        "working": working,
        "answering": answering,
    }


# --- what to change


def _advice(found: PoolInsights, listed: list[int], start_method: str) -> list[str]:
    if found.total < _WORTH:
        return []
    said = [_of_starting(found, start_method), _of_chunks(found, *listed), _of_waiting(found)]
    if found.answering_ratio >= _MUCH_ANSWERING:
        said.append(
            f"sending results takes {found.answering_ratio:.0%} of the workers' time: return less, or write"
            " into an array that all processes share (forklift.share)"
        )
    if said[1]:
        said[2] = ""  # workers wait because a task is over before the next one has been sent
    return [each for each in said if each]


def _of_starting(found: PoolInsights, start_method: str) -> str:
    if found.starting_ratio < _MUCH_STARTING or found.starting < _WORTH_A_START * found.started:
        return ""
    each = f"{found.starting_ratio:.0%} of the workers' time ({_span(found.starting / found.started)} each)"
    if found.initializer > found.starting / 2:
        return (
            f"starting takes {each}, most of it the initializer: do less in it, or use one pool for all calls"
        )
    if found.started > 2 * len(found.workers):
        return (
            f"starting takes {each}, since {found.started} processes were started for {len(found.workers)}"
            " workers: raise maxtasksperchild, or use warm_spare=True"
        )
    better = ", or the start method forkserver" if start_method == "spawn" else ""
    return f"starting takes {each}: use one pool for all calls{better}"


def _of_chunks(found: PoolInsights, tasks: int, items: int, ns: int) -> str:
    if tasks < _MANY_TASKS or ns / 1e9 >= tasks * _SMALL_TASK:
        return ""
    if found.waiting + found.answering < found.working / 2:
        return ""
    enough = math.ceil(10 * _SMALL_TASK * items / max(ns / 1e9, 1e-9))
    return (
        f"tasks of {_count(items / tasks, 'item')} take {_span(ns / 1e9 / tasks)}, hardly more than sending"
        f" them: use a larger chunksize, such as {_rounded(enough)}"
    )


def _of_waiting(found: PoolInsights) -> str:
    if found.waiting_ratio < _MUCH_WAITING or not found.tasks:
        return ""
    share = f"workers wait {found.waiting_ratio:.0%} of their time for tasks"
    slowest = found.slowest[0].seconds if found.slowest else 0.0
    if len(found.workers) > 1 and found.tasks > 1 and slowest > found.elapsed / 2:
        part = f"{_span(slowest)} of {_span(found.elapsed)}"
        return f"{share}, since one task takes {part}: split it, or send it first"
    return f"{share}: more workers will not help"


# --- the table


def _lines(found: PoolInsights) -> list[str]:
    lines = [
        f"{_count(len(found.workers), 'worker')} in {_span(found.elapsed)}: {_count(found.tasks, 'task')},"
        f" {_count(found.items, 'item')}; {_count(found.started, 'process', 'es')} started",
        "",
        f"{'worker':>6} {'tasks':>9} {'starting':>12} {'initializer':>12} {'waiting':>12} {'working':>12}"
        f" {'answering':>12}",
    ]
    lines += [_line(str(each.worker), each) for each in found.workers]
    lines.append(_line("all", found))
    shares = [found.starting, found.initializer, found.waiting, found.working, found.answering]
    lines.append(f"{'':>16}" + "".join(f" {found._ratio(each):>12.1%}" for each in shares))
    if found.slowest:
        lines += ["", "slowest tasks:"]
        lines += [f"{_span(each.seconds):>9}  {each.task}  (pid {each.pid})" for each in found.slowest]
    if found.advice:
        lines += ["", *(f"- {each}" for each in found.advice)]
    return lines


def _line(name: str, times: _Times) -> str:
    shown = [times.starting, times.initializer, times.waiting, times.working, times.answering]
    return f"{name:>6} {times.tasks:>9,}" + "".join(f" {_span(each):>12}" for each in shown)


def _span(seconds: float) -> str:
    """A time with two or three digits that matter."""
    if 0 < seconds < 1e-5:
        return f"{seconds * 1e6:.2g} us"
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} us"
    if seconds < 0.1:
        return f"{seconds * 1e3:.1f} ms"
    return f"{seconds:.2f} s" if seconds < 100 else f"{seconds:,.0f} s"


def _count(number: float, noun: str, plural: str = "s") -> str:
    shown = f"{number:,.0f}" if number == int(number) else f"{number:,.1f}"
    return f"{shown} {noun}{'' if number == 1 else plural}"


def _rounded(number: int) -> int:
    """The next number of one digit that matters."""
    power: int = 10 ** (len(str(number)) - 1)
    return -(-number // power) * power

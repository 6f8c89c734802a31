"""Why a program stands still: who waits for what, held by whom, since when, and what to do.

    print(forklift.why())          # of this process's own program
    report = forklift.why(4711)    # of the program that process 4711 belongs to
    if report.stuck:
        print(report.findings[0].text, report.findings[0].advice)

From a shell: ``python -m forklift why [PID | NAME]``.

Everything is read from the domain's shared memory and from ``/proc``, from outside: no process is asked or
stopped, so it works where all of them are stuck. Stuck are threads whose waits nobody can end any more:
everyone who could is stopped, is gone, or waits for something that is stuck itself. Waits with a time-out,
and those of less than a second, are not: they may end by themselves. Nor is a program that has nothing to do:
a process that reads a socket or computes may end the others' waits.

Limits: only waits for Forklift's objects and for processes are recorded. A thread that waits for a lock of
``threading`` is known by its system call, which needs the right to trace it (as root, or with
``kernel.yama.ptrace_scope`` at 0); without it, a main thread in such a call counts as one that may go on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from forklift import _core

__all__ = ["Diagnosis", "Finding", "ProcessInfo", "WaitInfo", "why"]


@dataclass(frozen=True)
class Finding:
    """One cause. ``cause`` is a word for programs: "lock-cycle", "queue-full", "stopped-process", ..."""

    cause: str
    text: str
    advice: str
    processes: list[int]


@dataclass(frozen=True)
class WaitInfo:
    """A thread that waits. ``seconds_left``: until its deadline, or inf; ``enders``: who could end it."""

    process: int
    thread: int
    who: str
    what: str
    seconds: float
    seconds_left: float
    stuck: bool
    call_site: str
    enders: list[int]


@dataclass(frozen=True)
class ProcessInfo:
    """A process of the domain, or one whose end is waited for. ``service``: it serves the others."""

    process: int
    parent: int
    name: str
    state: str
    service: bool


@dataclass(frozen=True)
class Diagnosis:
    """What was found. ``str()`` of it is for people, the likeliest cause in its first line."""

    findings: list[Finding]
    waits: list[WaitInfo]
    processes: list[ProcessInfo]
    text: str

    @property
    def stuck(self) -> bool:
        """Whether there are waits that nobody can end."""
        return bool(self.findings)

    def __str__(self) -> str:
        return self.text


def why(pid: int | None = None) -> Diagnosis:
    """Say what the processes of a program wait for, and whether they are stuck.

    ``pid``: any process of the program, of the same user; None: this one. ValueError: there is no such
    process, or it shares nothing by Forklift. RefusedError: another user's. VersionError: another Forklift's.
    A process in several domains is reported with all of them.
    """
    reports = _core.reports(pid)
    return Diagnosis(
        [Finding(**each) for report in reports for each in report["findings"]],
        [WaitInfo(**each) for report in reports for each in report["waits"]],
        _each_once([ProcessInfo(**each) for report in reports for each in report["processes"]]),
        _text(reports),
    )


def _text(reports: list[dict[str, Any]]) -> str:
    if not reports:
        return "Nothing is stuck: this process shares nothing yet."
    stuck_first = sorted(reports, key=lambda report: not report["findings"])
    return "\n".join(report["text"] for report in stuck_first).rstrip("\n")


def _each_once(processes: list[ProcessInfo]) -> list[ProcessInfo]:
    return list({each.process: each for each in processes}.values())

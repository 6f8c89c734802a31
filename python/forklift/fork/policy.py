"""What follows from the findings before a fork: a warning, an error or nothing."""

from __future__ import annotations

import os
import sys
from _thread import get_ident

from forklift import _core
from forklift.fork.findings import Finding, ForkReport
from forklift.fork.guards import examine, must_examine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, TracebackType

__all__ = ["Checked", "check_fork", "check_policy", "get_fork_policy", "set_fork_policy", "watch_forks"]

_POLICIES = ("warn", "error", "allow")
_VARIABLE = "FORKLIFT_FORK_POLICY"
_policy: str | None = None
# Libraries of which this process has warned. A child inherits it: no library is warned of twice in a branch.
_warned: set[str] = set()
# Threads whose fork has been checked already and which are about to call os.fork().
_checked: set[int] = set()
_watching = False
_observers: list[Callable[[ForkReport], object]] = []


def check_policy(policy: str | None) -> str | None:
    """The policy itself. ValueError if there is no such policy."""
    if policy is not None and policy not in _POLICIES:
        raise ValueError(f"a fork policy is 'warn', 'error' or 'allow', not {policy!r}")
    return policy


def set_fork_policy(policy: str | None) -> None:
    """Set what this process, and the children that it forks, do when a fork is examined.

    "warn": a `ForkWarning` for each library that will hang in the child, once a process. "error":
    `ForkRefusedError` before the fork, if something will hang or may hang. "allow": nothing. None: what the
    environment's FORKLIFT_FORK_POLICY says, or "warn". ValueError for anything else.
    """
    global _policy
    _policy = check_policy(policy)


def get_fork_policy() -> str:
    """The policy of a fork for which no other is given."""
    if _policy is not None:
        return _policy
    from_environment = os.environ.get(_VARIABLE, "warn")
    return from_environment if from_environment in _POLICIES else "warn"


def check_fork(policy: str | None = None) -> None:
    """Examine this process before a fork that the calling thread makes next.

    ForkRefusedError, ForkWarning (where a filter makes it an exception): nothing has happened yet.
    TimeoutError: another thread is within a call of OpenBLAS for longer than
    ``context.get_context("fork_timeout")``.
    """
    if not _observers and not must_examine():
        return
    _core._guard.rest_at_forks()
    _follow(policy or get_fork_policy())
    _core._guard.prepare_fork()  # last: it keeps the interpreter's lock, and the fork comes next


def _follow(policy: str) -> None:
    if policy == "allow" and not _observers:
        return
    report = ForkReport(examine())
    for observe in _observers:
        observe(report)
    if policy == "error":
        _refuse(report)
    elif policy == "warn":
        for finding in report:
            if _is_news(finding):
                _warn(finding)


def _refuse(report: ForkReport) -> None:
    if report.verdict in ("will hang", "may hang"):
        from forklift.errors import ForkRefusedError

        raise ForkRefusedError(f"the fork policy is 'error'\n{report}", findings=report.findings)


def _is_news(finding: Finding) -> bool:
    hangs = finding.verdict == "will hang"
    slower = bool(finding.threads) and finding.remedy.endswith("computes on one thread")
    return (hangs or slower) and finding.library not in _warned


def _warn(finding: Finding) -> None:
    import warnings

    from forklift.errors import ForkWarning

    # First: if a filter makes the warning an exception, the next attempt to fork succeeds.
    _warned.add(finding.library)
    text = f"{finding.in_words()}. ({_VARIABLE}=allow in the environment: no such warnings)"
    frame = _frame_of_program()
    if frame is None:
        warnings.warn(text, ForkWarning, stacklevel=2)
    else:
        warnings.warn_explicit(
            text,
            ForkWarning,
            frame.f_code.co_filename,
            frame.f_lineno,
            frame.f_globals.get("__name__", "<unknown>"),
        )


def _frame_of_program() -> FrameType | None:
    """The innermost frame that belongs neither to Forklift nor to multiprocessing."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name.partition(".")[0] not in ("forklift", "multiprocessing", "concurrent", "threading"):
            return frame
        frame = frame.f_back
    return None


class Checked:
    """A context in which the calling thread's os.fork() is not examined again."""

    def __enter__(self) -> None:
        _checked.add(get_ident())

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        _checked.discard(get_ident())


def watch_forks(observe: Callable[[ForkReport], object] | None = None) -> None:
    """From now on examine each os.fork() of this process and of its forked children.

    ``observe`` is called with each fork's report, and then every fork is examined, whatever it meets.
    """
    global _watching
    if observe is not None:
        _observers.append(observe)
    if not _watching:
        _watching = True
        _core._guard.watch_forks(_before_fork)


def _before_fork() -> None:
    if get_ident() not in _checked:
        check_fork()

"""``python -m forklift fork-report`` says before each fork of a program, and at its end, what a child meets.

The reports go to stderr. They are of the program's first process and of its forked children; the policy is
"allow", so that the program runs as it would without them, unless FORKLIFT_FORK_POLICY is set.
"""

from __future__ import annotations

import os
import sys
from multiprocessing import util as _std_util

from forklift.fork import ForkReport, fork_report, set_fork_policy
from forklift.fork.policy import watch_forks

__all__ = ["begin"]


def begin() -> None:
    """Report from now on."""
    if "FORKLIFT_FORK_POLICY" not in os.environ:
        set_fork_policy("allow")
    watch_forks(_report_fork)
    # At a lower priority than all that multiprocessing does at exit: by then it has joined the children.
    _std_util.Finalize(None, _report_end, exitpriority=-200)


def _report_fork(report: ForkReport) -> None:
    _print(f"process {os.getpid()} forks\n{report}")


def _report_end() -> None:
    _print(f"process {os.getpid()} ends\n{fork_report()}")


def _print(text: str) -> None:
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        pass  # the stream is closed

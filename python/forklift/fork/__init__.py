"""What a fork meets in this process: threads, runtimes and locks that a forked child would depend on.

    print(forklift.fork_report())                    # a table of what is loaded, and what becomes of it
    forklift.set_fork_policy("error")                # refuse forks whose children would hang
    forklift.register_fork_guard("camera", check)    # check() returns findings of one's own

Every fork of Forklift's contexts is examined first, and with ``forklift.install()`` every ``os.fork()``, too.
The policy says what follows: ``"warn"`` (a `ForkWarning` for each library, once a process), ``"error"``
(`ForkRefusedError`, before the fork) or ``"allow"``. The first of these counts that is given:
``Process.start(fork_policy=...)``, ``get_context("fork", fork_policy=...)``, `set_fork_policy`,
``FORKLIFT_FORK_POLICY`` in the environment, and at last ``"warn"``. See docs/fork.md.
"""

from __future__ import annotations

from forklift.fork.findings import Finding, ForkReport
from forklift.fork.guards import fork_report, register_fork_guard
from forklift.fork.policy import get_fork_policy, set_fork_policy

__all__ = [
    "Finding",
    "ForkReport",
    "fork_report",
    "get_fork_policy",
    "register_fork_guard",
    "set_fork_policy",
]

"""Helpers of the tests of ``spawn`` and ``start_processes``; the fixtures are in conftest.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import spawn_targets as targets

__all__ = ["METHODS", "WITHIN_S", "begin_failing", "gone", "is_running", "join", "queues"]

METHODS = ("fork", "spawn", "forkserver")
WITHIN_S = 2.0


def join(context: Any, **how: Any) -> None:
    while not context.join(**how):
        pass


def queues(mp: Any, method: str, count: int = 2) -> list[Any]:
    return [mp.get_context(method).SimpleQueue() for _ in range(count)]


def begin_failing(mp: Any, method: str, which: int, how: str, nprocs: int = 3) -> Any:
    """A group whose members are all there, and which of them fails next."""
    ready, go = queues(mp, method)
    context = mp.start_processes(
        targets.fail, (ready, go, which, how), nprocs, join=False, start_method=method
    )
    for _ in range(nprocs):
        ready.get()
    go.put(None)
    ready.close()
    go.close()
    return context


def gone(pids: list[int]) -> bool:
    return not any(is_running(pid) for pid in pids)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False

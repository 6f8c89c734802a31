"""Tells whether this process has threads that a forked child would miss, and what they are."""

from __future__ import annotations

import os
import sys
import threading
import warnings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["describe", "has_cuda", "missed_by_forks", "others", "why_not_to_fork"]

_TASKS = "/proc/self/task"
_MANY = 3


def others() -> list[int]:
    """The numbers of this process's threads, without the calling one."""
    own = threading.get_native_id()
    try:
        return [task for task in map(int, os.listdir(_TASKS)) if task != own]
    except OSError:  # no /proc
        tasks = [each.native_id for each in threading.enumerate()]
        return [task for task in tasks if task is not None and task != own]


def missed_by_forks() -> list[int]:
    """The threads that live on across a fork in the parent, and so are missing in a child.

    A runtime that survives forks ends its threads before the fork, and starts others after it or when it
    needs them: OpenBLAS does (`pthread_atfork`). So a child is forked that ends at once; the threads that
    were there before and are still there are of no such runtime.
    """
    before = others()
    if not before:
        return []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # from Python 3.12 on a fork beside threads is a DeprecationWarning
        pid = _fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    after = others()
    return [task for task in before if task in after]


_fork = os.fork


def why_not_to_fork() -> str | None:
    """Why a child forked now might hang: the threads it would miss, or CUDA. None: there is no reason."""
    missed = missed_by_forks()
    if missed:
        named = ", ".join(describe(task) for task in sorted(missed)[:_MANY])
        return named if len(missed) <= _MANY else f"{named} and {len(missed) - _MANY} more"
    return "CUDA is initialised" if has_cuda() else None


def has_cuda() -> bool:
    """Tells whether torch has initialised CUDA here. It imports and initialises nothing."""
    module: Any = sys.modules.get("torch.cuda")
    return module is not None and bool(getattr(module, "is_initialized", bool)())


def describe(task: int) -> str:
    """A thread in words: its name, and the function or the library that it runs."""
    for thread in threading.enumerate():
        if thread.native_id == task:
            target: Any = getattr(thread, "_target", None) or type(thread).run
            module, name = getattr(target, "__module__", "?"), getattr(target, "__qualname__", "?")
            return f"thread {thread.name!r} in {module}.{name}"
    from forklift import _core

    name, owner = _core._guard.owners_of_threads().get(task, (str(task), ""))
    return f"thread {name!r} of {owner or 'an unknown library'}"

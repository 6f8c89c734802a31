"""Forklift's own errors, one class for each kind.

Failures that the standard library has a class for keep that class: ``queue.Empty``, ``queue.Full``,
``ValueError`` for a closed queue, ``OSError`` for a failed system call.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


__all__ = [
    "AbandonedLockWarning",
    "ConversionError",
    "CorruptError",
    "ForkliftError",
    "NameTakenError",
    "NoSpaceError",
    "NotAttachedError",
    "NotFoundError",
    "OverBudgetError",
    "PeerDiedError",
    "PoolStoppedError",
    "RefusedError",
    "StalledError",
    "VersionError",
    "WorkerDiedError",
]


class ForkliftError(Exception):
    """The base of Forklift's errors."""


class OverBudgetError(ForkliftError, MemoryError):
    """The domain's memory budget would be exceeded; says how much was asked for, in use and allowed.

    Nothing was sent. Receivers give memory back when they drop what they received.
    """


class NoSpaceError(ForkliftError, MemoryError):
    """A table of the domain (processes, queues, blocks, leases) or the address space is full."""


class StalledError(ForkliftError, RuntimeError):
    """The holder of an internal lock is stopped (SIGSTOP, a debugger, a frozen control group)."""


class CorruptError(ForkliftError, ValueError):
    """Data from another process failed its check and were not used. That message is lost."""


class ConversionError(ForkliftError, TypeError):
    """A received array cannot become one of the framework that was asked for.

    The message is not lost: ``received`` is the whole object, its arrays as they were sent. ``framework`` is
    the name that was asked for.
    """

    def __init__(self, text: str, *, received: Any = None, framework: str = "") -> None:
        super().__init__(text)
        self.received = received
        self.framework = framework


class VersionError(ForkliftError, RuntimeError):
    """The process tree's shared memory has the layout of another version of Forklift."""


class RefusedError(ForkliftError, PermissionError):
    """This process may not join: another user or another pid namespace."""


class NotAttachedError(ForkliftError, RuntimeError):
    """This process belongs to no domain, or closed the descriptors that its membership rests on."""


class PeerDiedError(ForkliftError, RuntimeError):
    """The process that should have answered has ended."""


class NotFoundError(ForkliftError, LookupError):
    """No process serves a domain under this name, or nothing is published under it."""


class NameTakenError(ForkliftError, ValueError):
    """A domain is served under this name already, or something is published under it."""


class FinishedError(ForkliftError, EOFError):
    """A broadcast was finished, and this subscription has read everything."""


class DisconnectedError(ForkliftError, ConnectionError):
    """A subscription was too slow for a broadcast that disconnects slow readers."""


class WorkerDiedError(ForkliftError, RuntimeError):
    """The worker of a pool that had this task is dead. ``exitcode`` is negative for a signal's number.

    ``index``: the task's (first) item; ``item``: that item's representation, shortened, if it is known.
    """

    def __init__(
        self,
        text: str,
        *,
        pid: int = 0,
        exitcode: int = 0,
        task: str = "",
        index: int = 0,
        item: str | None = None,
    ) -> None:
        super().__init__(text)
        self.pid = pid
        self.exitcode = exitcode
        self.task = task
        self.index = index
        self.item = item


class PoolStoppedError(ForkliftError, RuntimeError):
    """The pool was terminated before this task had ended, or its workers cannot work."""


class AbandonedLockWarning(RuntimeWarning):
    """A lock was taken over from a process that was killed while it held it.

    The acquirer has the lock; what it guards may be half changed. Where a filter turns this warning into an
    exception, the lock has been given back when it is raised.
    """

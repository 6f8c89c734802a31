"""Forklift's own errors, one class for each kind.

Where the standard library has a class for a failure, Forklift raises that class: ``queue.Empty``,
``queue.Full``, ``ValueError`` for a closed queue, ``OSError`` for a failed system call.
"""

from __future__ import annotations

import queue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    class _ShutDown(Exception): ...
else:
    _ShutDown = getattr(queue, "ShutDown", Exception)


__all__ = [
    "AbandonedLockWarning",
    "BatchFull",
    "BrokenByForkError",
    "BrokenGroupError",
    "CollectiveMismatchError",
    "ConversionError",
    "CorruptError",
    "DeviceError",
    "ForkHangError",
    "ForkRefusedError",
    "ForkServerWarning",
    "ForkWarning",
    "ForkliftError",
    "NameTakenError",
    "NoSpaceError",
    "NotAcrossNodesError",
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
    """The domain's memory budget would be exceeded; the text says how much was asked for, in use and allowed.

    Nothing was sent. Memory comes back when receivers drop what they have received.
    """


class BatchFull(queue.Full):
    """``put_many`` did not put all its objects before its time was over.

    ``put``: how many it put, which stay in the queue. ``left``: the objects that it had taken from the
    iterable and not put, oldest first. What the iterable still has comes after these, so
    ``itertools.chain(error.left, iterator)`` goes on.

    Any other exception that ``put_many`` raises has the same two attributes.
    """

    put: int = 0
    left: list[Any]


class NoSpaceError(ForkliftError, MemoryError):
    """A table of the domain (processes, queues, blocks, leases) or the address space is full."""


class BrokenByForkError(ForkliftError, RuntimeError):
    """An operation was under way in the parent when this process was forked: its result exists only there."""


class StalledError(ForkliftError, RuntimeError):
    """The holder of an internal lock is stopped (SIGSTOP, a debugger, a frozen control group)."""


class CorruptError(ForkliftError, ValueError):
    """Data from another process failed a check and was not used. The message that held it is lost."""


class ConversionError(ForkliftError, TypeError):
    """A received array cannot be converted to one of the requested framework.

    The message is not lost: ``received`` is the whole object, with its arrays as they arrived. ``framework``
    is the name that was requested.
    """

    def __init__(self, text: str, *, received: Any = None, framework: str = "") -> None:
        super().__init__(text)
        self.received = received
        self.framework = framework


class VersionError(ForkliftError, RuntimeError):
    """The domain's shared memory has the layout of another version of Forklift."""


class RefusedError(ForkliftError, PermissionError):
    """This process may not join the domain: it is of another user or another pid namespace."""


class NotAttachedError(ForkliftError, RuntimeError):
    """This process belongs to no domain, or has closed the descriptors that its membership needs."""


class PeerDiedError(ForkliftError, RuntimeError):
    """The process that should have answered has ended."""


class BrokenGroupError(ForkliftError, RuntimeError):
    """A group's collectives cannot be used any more: a rank has given one up, was late, or has left."""


class CollectiveMismatchError(ForkliftError, ValueError):
    """The ranks of a group have called different collectives; the text names each rank's call.

    All ranks raise it, nothing was done, and the group goes on.
    """


class NotAcrossNodesError(ForkliftError, NotImplementedError):
    """What was asked for holds within one machine only; the text says what to use between nodes."""


class NotFoundError(ForkliftError, LookupError):
    """No process serves a domain under this name, or nothing is published under it."""


class DeviceError(ForkliftError, RuntimeError):
    """A device's driver failed; the text names its function and its error.

    Some of these errors make the device unusable for the rest of the process. The text says so.
    """


class NameTakenError(ForkliftError, ValueError):
    """A domain is served under this name already, or something is published under it."""


class FinishedError(ForkliftError, EOFError, _ShutDown):
    """The broadcast was finished, or the queue was shut down, and all its messages were read.

    ``put`` into a queue that was shut down raises it, too. It is a ``queue.ShutDown`` where Python has that
    (3.13 and newer).
    """


class DisconnectedError(ForkliftError, ConnectionError):
    """This subscription was too slow for a broadcast that disconnects slow readers."""


class WorkerDiedError(ForkliftError, RuntimeError):
    """The pool worker that had this task died.

    ``pid``: the worker's; ``exitcode``: its exit code, or minus the number of the signal that killed it.
    ``task``: the task as text; ``index``: the index of its first item; ``item``: that item's representation,
    shortened, or None if it is not known.
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
    """The pool was terminated before this task ended, or its workers cannot be started or made ready."""


class ForkRefusedError(ForkliftError, RuntimeError):
    """The fork policy is "error", and a forked child would hang or may hang. Nothing was forked.

    ``findings``: all findings (`forklift.fork.Finding`), worst first; the text has them as a table.
    """

    def __init__(self, text: str, *, findings: Any = ()) -> None:
        super().__init__(text)
        self.findings = list(findings)


class ForkHangError(ForkliftError, RuntimeError):
    """A child that was started with a time-out hung within it. It was killed.

    ``pid``: the child's; ``stacks``: its stacks as text, Python's and native ones, if they are known. The
    error's own text has them, too, and what each thread waited for.
    """

    def __init__(self, text: str, *, pid: int = 0, stacks: str = "") -> None:
        super().__init__(text)
        self.pid = pid
        self.stacks = stacks


class ForkWarning(RuntimeWarning):
    """A library of this process will hang in the child that is about to be forked.

    It is given once for each library in a process. If a filter turns it into an exception, nothing was
    forked.
    """


class AbandonedLockWarning(RuntimeWarning):
    """A lock was taken over from a process that was killed while it held it.

    The acquirer has the lock; the data that the lock guards may be half changed. If a filter turns this
    warning into an exception, the lock is released before the exception is raised.
    """


class ForkServerWarning(RuntimeWarning):
    """The fork server could not import a module beforehand, or starts children without a fork.

    Everything works, but children take longer to start: they import the module themselves.
    """

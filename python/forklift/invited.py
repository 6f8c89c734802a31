"""In a child that is a fresh interpreter: what its parent has given it, until the child needs it.

Every such child imports this module, and many run a function that uses nothing of Forklift's. So it imports
only what ``multiprocessing`` has imported anyway: the C++ core is loaded when something asks for it, and then
joins the parent's domain, before it could make one of its own. Until that the child's slot is reserved, and
its descriptors prove that the child lives.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any
else:
    Any = object

__all__ = ["accept", "begin", "end_with_parent", "inherited", "take", "unpack"]

# Process; descriptors of control segment, data segment and lock; what they are; the slot and its generation.
_waiting: tuple[int, tuple[int, ...], list[tuple[int, int]], int, int] | None = None
_knows_forks = False

# The collector's thresholds, while it is called less than they say.
_thresholds: tuple[int, int, int] | None = None
_FEW_COLLECTIONS = 100_000


def inherited(index: int) -> int:
    """A descriptor that the fork server has passed on."""
    from multiprocessing import forkserver

    descriptors: Any = forkserver.get_inherited_fds()
    return int(descriptors[index])


def accept(control: Any, data: Any, lock: Any, slot: int, generation: int) -> None:
    """Be of the parent's domain: now if the core is there (in a fork server's child), else before it is used.

    One pickle may say it several times.
    """
    global _waiting, _knows_forks
    fds = tuple(each if isinstance(each, int) else int(each.detach()) for each in (control, data, lock))
    core = sys.modules.get("forklift._core")
    if core is not None:
        core.join(*fds, slot, generation)
        return
    if _waiting is not None:
        return
    _waiting = (os.getpid(), fds, [_identity(fd) for fd in fds], slot, generation)
    for fd in fds:
        # Not for programs that the child executes: its slot must be free when it is gone.
        os.set_inheritable(fd, False)
    if not _knows_forks:
        _knows_forks = True
        os.register_at_fork(before=_before_fork)


def _identity(fd: int) -> tuple[int, int]:
    try:
        status = os.fstat(fd)
    except OSError:
        return (-1, -1)
    return (status.st_dev, status.st_ino)


def take() -> tuple[int, ...] | None:
    """For the core, which is being imported: control, data, lock, slot, generation; None if not invited.

    Nor is one that has closed its descriptors; nothing that it has can be of its parent's domain.
    """
    global _waiting
    found, _waiting = _waiting, None
    if found is None:
        return None
    process, fds, identities, slot, generation = found
    if process != os.getpid() or [_identity(fd) for fd in fds] != identities:
        return None
    return (*fds, slot, generation)


def _before_fork() -> None:
    # The slot is this process's alone, and its children are to be of the same domain.
    if _waiting is not None:
        import forklift._core  # noqa: F401


def unpack(pickled: bytes, install: bool, managed: bool) -> Any:
    """The process object. Its pickle is opened when all is in place that the objects in it need."""
    import pickle

    try:
        if install:
            from forklift.installing import install as install_here

            install_here()
        if managed:
            from forklift.multiprocessing import manager_channels

            manager_channels.enable()
        return pickle.loads(pickled)[1]
    finally:
        _collect_as_before()


def _collect_less() -> None:
    """What modules make while they are imported is there to stay; looking for garbage in it is in vain."""
    global _thresholds
    import gc

    before = gc.get_threshold()
    if gc.isenabled() and 0 < before[0] < _FEW_COLLECTIONS and gc.get_freeze_count() == 0:
        _thresholds = before
        gc.set_threshold(_FEW_COLLECTIONS, *before[1:])


def _collect_as_before() -> None:
    """Unless the program's main module has its own idea of the collector."""
    global _thresholds
    import gc

    before, _thresholds = _thresholds, None
    if before is None or gc.get_threshold() != (_FEW_COLLECTIONS, *before[1:]):
        return
    gc.set_threshold(*before)
    if gc.get_freeze_count() == 0:
        # All that there is becomes old, as collections would have made it, without looking at it.
        gc.freeze()
        gc.unfreeze()


def begin(line: Any) -> None:
    """What a child does first. `line`: a descriptor to end with its parent by; None: it lives on."""
    _collect_less()
    if line is None:
        return
    read_end = line if isinstance(line, int) else int(line.detach())
    end_with_parent(read_end)
    os.close(read_end)


def end_with_parent(read_end: int) -> None:
    """In the child: die when the parent does, at once if it is gone already. As in process/lifeline.cpp."""
    import fcntl
    import select
    import signal

    try:
        # Whom a descriptor signals belongs to its open file description: the inherited one is shared with the
        # parent's other children.
        own = os.open(f"/proc/self/fd/{read_end}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        fcntl.fcntl(own, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(own, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(own, fcntl.F_SETFL, os.O_RDONLY | os.O_NONBLOCK | fcntl.FASYNC)
    except OSError as error:
        from multiprocessing import util

        util.info("forklift: a daemon without a lifeline: %s", error)
        return
    # `own` stays open as long as the process. It may have happened before the kernel was asked; the new
    # description cannot tell that, the old one can.
    poll = select.poll()
    poll.register(read_end, select.POLLIN)
    if any(events & select.POLLHUP for _, events in poll.poll(0)):
        os.kill(os.getpid(), signal.SIGKILL)

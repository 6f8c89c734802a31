"""The start of a child that is a fresh interpreter: takes over what the parent gave it.

Every such child imports this module, and many run a function that uses nothing of Forklift. So it imports
only what ``multiprocessing`` has imported anyway. When something first needs the C++ core, the core is loaded
and joins the parent's domain, before the child can make one of its own. Until then the child's slot is
reserved, and its descriptors prove that the child lives.

Features that need work done at every child's start add a function here (`add_task`); so the modules that
start processes know none of the features.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any
else:
    Any = object

__all__ = ["accept", "add_task", "begin", "end_with_parent", "inherited", "take", "tasks", "unpack"]

# A dictionary for its order; the values mean nothing.
_tasks: "dict[Callable[[], object], None]" = {}

# Process; descriptors of control segment, data segment and lock; what they are; the slot and its generation.
_waiting: tuple[int, tuple[int, ...], list[tuple[int, int]], int, int] | None = None
_knows_forks = False

# The collector's thresholds, while it is called less than they say.
_thresholds: tuple[int, int, int] | None = None
_FEW_COLLECTIONS = 100_000


def inherited(index: int) -> int:
    """The descriptor that the fork server passed on under this index."""
    from multiprocessing import forkserver

    descriptors: Any = forkserver.get_inherited_fds()
    return int(descriptors[index])


def accept(control: Any, data: Any, lock: Any, slot: int, generation: int) -> None:
    """Join the parent's domain: at once if the core is loaded (in a fork server's child), else when it is.

    One pickle may call this several times.
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
        # Not inherited by programs that the child executes: its slot must be free once the child is gone.
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
    """For the core, while it is imported: control, data, lock, slot, generation; None without an invitation.

    A process that has closed the descriptors counts as not invited: none of its objects can belong to its
    parent's domain.
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
    # The slot belongs to this process alone, and its children must be in the same domain.
    if _waiting is not None:
        import forklift._core  # noqa: F401


def add_task(function: "Callable[[], object]") -> None:
    """Have every child that is a fresh interpreter call this function before it unpickles its arguments.

    The function is pickled by its name. Where it should hold for the children's children as well, it adds
    itself when it is called in the child.
    """
    _tasks[function] = None


def tasks() -> "tuple[Callable[[], object], ...]":
    """The functions that were added, in the order in which children call them."""
    return tuple(_tasks)


def unpack(pickled: bytes, tasks: "tuple[Callable[[], object], ...]") -> Any:
    """The process object, unpickled after all tasks: the objects in it may need them."""
    import pickle

    try:
        for task in tasks:
            task()
        return pickle.loads(pickled)[1]
    finally:
        _collect_as_before()


def _collect_less() -> None:
    """Raise the collector's threshold: objects that imports make stay, so a search finds no garbage."""
    global _thresholds
    import gc

    before = gc.get_threshold()
    if gc.isenabled() and 0 < before[0] < _FEW_COLLECTIONS and gc.get_freeze_count() == 0:
        _thresholds = before
        gc.set_threshold(_FEW_COLLECTIONS, *before[1:])


def _collect_as_before() -> None:
    """Restore the threshold, unless the program's main module has set its own."""
    global _thresholds
    import gc

    before, _thresholds = _thresholds, None
    if before is None or gc.get_threshold() != (_FEW_COLLECTIONS, *before[1:]):
        return
    gc.set_threshold(*before)
    if gc.get_freeze_count() == 0:
        # Moves all objects to the oldest generation, as collections would have, without traversing them.
        gc.freeze()
        gc.unfreeze()


def begin(line: Any) -> None:
    """The first call in a child. `line`: the descriptor of its lifeline; None: it survives its parent."""
    _collect_less()
    if line is None:
        return
    read_end = line if isinstance(line, int) else int(line.detach())
    end_with_parent(read_end)
    os.close(read_end)


def end_with_parent(read_end: int) -> None:
    """In the child: die with the parent, at once if it is dead already. As process/lifeline.cpp does."""
    import fcntl
    import select
    import signal

    try:
        # The owner that gets a descriptor's signal is a property of the open file description, and the
        # inherited one is shared with the parent's other children: so open another.
        own = os.open(f"/proc/self/fd/{read_end}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        fcntl.fcntl(own, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(own, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(own, fcntl.F_SETFL, os.O_RDONLY | os.O_NONBLOCK | fcntl.FASYNC)
    except OSError as error:
        from multiprocessing import util

        util.info("forklift: a daemon without a lifeline: %s", error)
        return
    # `own` stays open as long as the process. The parent may have died before F_SETFL; the new description
    # cannot tell that, the old one can.
    poll = select.poll()
    poll.register(read_end, select.POLLIN)
    if any(events & select.POLLHUP for _, events in poll.poll(0)):
        os.kill(os.getpid(), signal.SIGKILL)

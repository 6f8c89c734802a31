"""The start of a child that is a fresh interpreter: it takes over what its parent gave it.

Every such child imports this module, and many run a function that uses nothing of Forklift. So this module
imports only what ``multiprocessing`` has imported anyway. When something first needs the C++ core, the core
is loaded and joins the parent's domain, before the child can make a domain of its own. Until then the child's
slot is reserved, and its descriptors prove that the child lives.

A feature that needs work done at the start of every child adds a function here (`add_task`), so the modules
that start processes need not know the feature.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any
else:
    Any = object

__all__ = [
    "accept",
    "add_task",
    "begin",
    "end_with_parent",
    "find_package",
    "freeze",
    "inherited",
    "outlive_parent",
    "soften_end",
    "take",
    "tasks",
    "unpack",
]

# An ordered set: a dictionary whose values mean nothing.
_tasks: "dict[Callable[[], object], None]" = {}

# An invitation that the core has not used yet: this process; the descriptors of the control segment, the data
# segment and the lock; their identities; the slot and its generation.
_waiting: tuple[int, tuple[int, ...], list[tuple[int, int]], int, int] | None = None
_knows_forks = False

# The process that ends with its parent, and its descriptor by which the kernel kills it then.
_lifeline = (0, -1)

# The garbage collector's own thresholds while _collect_less() has raised them, else None.
_thresholds: tuple[int, int, int] | None = None
_FEW_COLLECTIONS = 100_000
# Python 3.12 freezes what it has made when it starts, 375 objects: a program freezes many more.
_FROZEN_BY_PYTHON = 1000 if sys.version_info[:2] == (3, 12) else 0

# This process is a fork server or one of its children.
_is_forked = False


def inherited(index: int) -> int:
    """The descriptor that the fork server passed to this child at this index."""
    from multiprocessing import forkserver

    descriptors: Any = forkserver.get_inherited_fds()
    return int(descriptors[index])


def accept(control: Any, data: Any, lock: Any, slot: int, generation: int) -> None:
    """Join the parent's domain: now if the core is loaded (in a fork server's child), else once it is loaded.

    Unpickling one object may call this several times.
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
        # Programs that the child executes must not inherit it: the slot must be free once the child is gone.
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
    """Hand the invitation to the core, which calls this while it is imported.

    Returns (control, data, lock, slot, generation), or None without an invitation. A process that has closed
    the descriptors counts as not invited: none of its objects can belong to its parent's domain.
    """
    global _waiting
    found, _waiting = _waiting, None
    if found is None:
        return None
    process, fds, identities, slot, generation = found
    if process != os.getpid() or [_identity(fd) for fd in fds] != identities:
        return None
    return (*fds, slot, generation)


def soften_end(seconds: float) -> None:
    """When the parent is gone, send SIGINT first, and SIGKILL after these seconds. It loads the core."""
    process, own = _lifeline
    if process == os.getpid():
        from forklift import _core

        _core.soften_end(own, seconds)


def _before_fork() -> None:
    # Join before the fork: the slot is for this process only, and its children must be in the same domain.
    if _waiting is not None:
        import forklift._core  # noqa: F401


def add_task(function: "Callable[[], object]") -> None:
    """Have every child that is a fresh interpreter call this function before it unpickles its arguments.

    The function is pickled by its name. If grandchildren shall call it as well, the function adds itself when
    it is called in the child.
    """
    _tasks[function] = None


def tasks() -> "tuple[Callable[[], object], ...]":
    """The functions that were added, in the order in which children call them."""
    return tuple(_tasks)


def unpack(pickled: bytes, tasks: "tuple[Callable[[], object], ...]") -> Any:
    """The process object, unpickled after all tasks: the objects in it may need them."""
    try:
        from _pickle import loads  # `pickle` imports `re` and more, which the C module does without
    except ImportError:
        from pickle import loads

    try:
        for task in tasks:
            task()
        process_obj = loads(pickled)[1]
    finally:
        _collect_as_before()
    core = sys.modules.get("forklift._core")
    if core is not None:  # otherwise it takes the name when it is loaded
        core.name_process(process_obj.name)
    return process_obj


def freeze() -> None:
    """In the fork server: what has been imported is for its children to read, so they shall not write to it.

    A collection writes to each object that it visits, and asking how many objects are frozen visits them all.
    """
    global _is_forked
    import gc

    _is_forked = True
    gc.freeze()


def _collect_less() -> None:
    """Raise the garbage collector's threshold: the objects that imports make stay, so none is garbage."""
    global _thresholds
    import gc

    before = gc.get_threshold()
    if (
        gc.isenabled()
        and 0 < before[0] < _FEW_COLLECTIONS
        and (_is_forked or gc.get_freeze_count() <= _FROZEN_BY_PYTHON)
    ):
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
    if _is_forked:
        gc.freeze()
    elif gc.get_freeze_count() <= _FROZEN_BY_PYTHON:
        # Moves all objects to the oldest generation, as the omitted collections would have, but without
        # traversing them.
        gc.freeze()
        gc.unfreeze()


def find_package() -> str:
    """Code with which a fresh interpreter finds this package where this process has found it."""
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return f"import sys; {folder!r} in sys.path or sys.path.append({folder!r}); "


def begin(line: Any) -> None:
    """The first call in a child. `line`: its lifeline's descriptor; None: the child survives its parent."""
    _collect_less()
    if line is None:
        return
    read_end = line if isinstance(line, int) else int(line.detach())
    end_with_parent(read_end)
    os.close(read_end)


def end_with_parent(read_end: int) -> None:
    """Make this child die with its parent, at once if that is dead already (as src/process/lifeline.cpp)."""
    global _lifeline
    import fcntl
    import select
    import signal

    try:
        # The owner that gets a descriptor's signal is a property of the open file description. The inherited
        # description is shared with the parent's other children, so open another one.
        own = os.open(f"/proc/self/fd/{read_end}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        fcntl.fcntl(own, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(own, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(own, fcntl.F_SETFL, os.O_RDONLY | os.O_NONBLOCK | fcntl.FASYNC)
    except OSError as error:
        from multiprocessing import util

        util.info("forklift: a daemon without a lifeline: %s", error)
        return
    _lifeline = (os.getpid(), own)
    # `own` stays open as long as the process lives. The parent may have died before F_SETFL: the new
    # description does not show that, the inherited one does.
    poll = select.poll()
    poll.register(read_end, select.POLLIN)
    if any(events & select.POLLHUP for _, events in poll.poll(0)):
        os.kill(os.getpid(), signal.SIGKILL)


def outlive_parent() -> None:
    """Undo end_with_parent()."""
    global _lifeline
    process, own = _lifeline
    if process == os.getpid():
        _lifeline = (0, -1)
        os.close(own)

"""How a spawned child joins its parent's domain.

The parent reserves a slot and lets the child inherit three descriptors (control segment, data segment, the
lock that proves the child's life); the child takes them over when it loads the core (forklift.invited).
Forked children need none of this: they inherit the domain itself.
"""

from __future__ import annotations

import io
import operator
import os
import sys
from multiprocessing import context as _std_context
from multiprocessing import process as _std_process
from multiprocessing import reduction as _std_reduction
from multiprocessing import util as _std_util

from forklift import _core, installing, invited
from forklift.multiprocessing.lifeline import lifeline_for

TYPE_CHECKING = False
if TYPE_CHECKING:  # not at run time, since every fresh interpreter among the children imports this
    from typing import Any

__all__ = [
    "Invitation",
    "Parcel",
    "descriptor_for_child",
    "ensure_domain",
    "invitation_for",
    "invitation_to_share",
    "is_for_forks_only",
    "is_invited",
    "parent_sentinel",
]

_REFUSED = sys.version_info >= (3, 11, 4)  # what a fork context made, by the standard library
_ATTRIBUTE = "_forklift_invitation"
_FOLDER = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Invitation:
    """One child's right to join; pickled among its arguments, at most once into each pickle."""

    def __init__(self) -> None:
        self._core: Any = _core.invite()
        # Index and generation of the child's slot.
        self.slot: tuple[int, int] = (self._core.slot, self._core.generation)
        self._reduced: Any = None

    def descriptors(self) -> tuple[int, int, int]:
        """What the child joins with: the control segment, the data segment, its slot's lock."""
        return (self._core.control, self._core.data, self._core.lock)

    def __reduce__(self) -> Any:
        if self._reduced is None:
            # Once: the same descriptor must not be passed twice.
            fds = [descriptor_for_child(fd) for fd in self.descriptors()]
            self._reduced = (invited.accept, (*fds, *self.slot))
        return self._reduced

    def close(self) -> None:
        """Close the parent's copies. From then on the slot lives and dies with the child."""
        self._core.close()
        # A Popen lives as long as its process object, to the interpreter's end perhaps: that must not.
        self._core = None


def descriptor_for_child(fd: int) -> Any:
    """A descriptor among what a child is given, as the child will get it from its pickle.

    The standard library's own wrappers belong to the modules that start children, which the child would
    import for them.
    """
    popen: Any = _std_context.get_spawning_popen()
    wrapper = getattr(popen, "DupFd", None)
    for name in ("popen_spawn_posix", "popen_forkserver"):
        module = sys.modules.get("multiprocessing." + name)
        if module is not None and wrapper is getattr(module, "_DupFd", module):
            number: int = popen.duplicate_for_child(fd)
            return number if name == "popen_spawn_posix" else _Inherited(number)
    return _std_reduction.DupFd(fd)


class _Inherited:
    def __init__(self, index: int) -> None:
        self._index = index

    def __reduce__(self) -> Any:
        return (invited.inherited, (self._index,))


def invitation_for(popen: Any) -> Invitation:
    """The invitation of the child that `popen` is about to start."""
    invitation: Invitation | None = getattr(popen, _ATTRIBUTE, None)
    if invitation is None:
        invitation = Invitation()
        setattr(popen, _ATTRIBUTE, invitation)
    return invitation


def is_for_forks_only(ctx: Any) -> bool:
    """May what this context makes go to forked children only?

    Ours could go anywhere. But programs may count on the error where the standard library has it.
    """
    try:
        return bool(_REFUSED and ctx._name == "fork")  # without a call: each lock asks
    except AttributeError:
        chosen = _std_context._default_context.get_context() if ctx is None else ctx
        return bool(chosen.get_start_method() == "fork")


def invitation_to_share(shared: Any) -> Invitation:
    """The invitation of the child that is being started and will hold `shared`, too.

    RuntimeError where none is, or none of a kind that may.
    """
    _std_context.assert_spawning(shared)
    if shared._is_fork_ctx:
        raise RuntimeError(
            "A SemLock created in a fork context is being shared with a process in a spawn context. This is "
            "not supported. Please use the same context to create multiprocessing objects and Process."
        )
    return invitation_for(_std_context.get_spawning_popen())


def is_invited(popen: Any) -> bool:
    """Is the child that `popen` starts (None: nobody is started) one that will join?"""
    return getattr(popen, _ATTRIBUTE, None) is not None


class Parcel:
    """A process object with the invitation in front of it: the child has joined before it unpickles queues.

    Stands for the process object in the standard library's ``Popen._launch``.
    """

    def __init__(self, process_obj: Any, invitation: Invitation) -> None:
        from forklift.multiprocessing.executors import attend  # not for who starts nothing

        attend(process_obj)
        self._name = _Name(process_obj._name, invitation, _Line(lifeline_for(process_obj)))
        self._contents = (invitation, process_obj)

    def __reduce__(self) -> Any:
        # A pickle of its own, since arrays in shared memory need a reducer that the standard library's
        # pickler must not have: registered there, it would count for all of the program's pickling.
        from forklift.reducers import spawn_table

        stream = io.BytesIO()
        pickler: Any = _std_reduction.ForkingPickler(stream)
        pickler.dispatch_table = spawn_table()
        pickler.dump(self._contents)
        managed = "forklift.multiprocessing.manager_channels" in sys.modules
        return (invited.unpack, (stream.getvalue(), installing.installed(), managed))


class _Name:
    """The process's name, with its lifeline and the invitation in front of it.

    It is part of the preparation data, so the child has joined before it imports the program's main module,
    which may make locks and queues of its own. Its ``sys.path`` is not its parent's yet.
    """

    def __init__(self, name: str, invitation: Invitation, line: _Line) -> None:
        self._parts = (_Path(), line, invitation, name)

    def __reduce__(self) -> Any:
        return (operator.getitem, (self._parts, -1))


class _Path:
    """Makes the child find this package."""

    def __reduce__(self) -> Any:
        code = f"import sys; {_FOLDER!r} in sys.path or sys.path.append({_FOLDER!r})"
        return (exec, (code, {}))


class _Line:
    """A lifeline among what a fresh interpreter is given; None: no line."""

    def __init__(self, read_end: int | None) -> None:
        self._read_end = read_end

    def __reduce__(self) -> Any:
        return (
            invited.begin,
            (None if self._read_end is None else descriptor_for_child(self._read_end),),
        )


def ensure_domain() -> None:
    """Make the domain before a fork, so that parent and child are in the same one.

    A process that cannot have one (no address space, say) can still fork; its queues will say what is wrong.
    """
    try:
        _core.ensure_domain()
    except Exception as error:
        _std_util.info("forklift: no domain: %s", error)


def parent_sentinel() -> int:
    """A descriptor that is readable once this process's parent is gone; -1 in a main process."""
    parent = _std_process.parent_process()
    return -1 if parent is None else int(parent.sentinel)


def _after_fork(_key: Any) -> None:
    # Last of all: whoever ends a process without this did not end in good order.
    _std_util.Finalize(None, _core.mark_clean, exitpriority=-100)


class _Key:
    """register_after_fork holds its keys weakly."""


_key = _Key()
_std_util.register_after_fork(_key, _after_fork)
assert_spawning = _std_context.assert_spawning

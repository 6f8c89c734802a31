"""The invitation, which a pickle carries to a spawned child so that it joins its parent's domain.

The parent reserves a slot and lets the child inherit three descriptors: the control segment, the data segment
and the lock that shows that the child is alive. The child takes them over when it loads the core
(forklift.child_boot). Forked children need no invitation: they inherit the domain itself.
"""

from __future__ import annotations

import sys
from multiprocessing import context as _std_context
from multiprocessing import process as _std_process
from multiprocessing import reduction as _std_reduction
from multiprocessing import util as _std_util

from forklift import _core, child_boot

TYPE_CHECKING = False
if TYPE_CHECKING:  # not at run time, since every fresh interpreter among the children imports this
    from typing import Any

__all__ = [
    "Invitation",
    "descriptor_for_child",
    "invitation_for",
    "invitation_to_share",
    "is_for_forks_only",
    "is_invited",
    "parent_sentinel",
]

# From Python 3.11.4 on the standard library refuses to send objects of a fork context to spawned children.
_REFUSED = sys.version_info >= (3, 11, 4)
_ATTRIBUTE = "_forklift_invitation"


class Invitation:
    """One child's right to join the domain. It is pickled among the child's arguments, once in a pickle."""

    def __init__(self) -> None:
        self._core: Any = _core.invite()
        # Index and generation of the child's slot.
        self.slot: tuple[int, int] = (self._core.slot, self._core.generation)
        self._reduced: Any = None

    def descriptors(self) -> tuple[int, int, int]:
        """The descriptors that the child needs: the control segment, the data segment, its slot's lock."""
        return (self._core.control, self._core.data, self._core.lock)

    def __reduce__(self) -> Any:
        if self._reduced is None:
            # Only once, since the same descriptor must not be passed to the child twice.
            fds = [descriptor_for_child(fd) for fd in self.descriptors()]
            self._reduced = (child_boot.accept, (*fds, *self.slot))
        return self._reduced

    def close(self) -> None:
        """Close the parent's copies. From then on the slot is freed when the child ends."""
        self._core.close()
        # A Popen may live until the interpreter ends, since its process object holds it. The core's part of
        # the invitation must not live that long.
        self._core = None


def descriptor_for_child(fd: int) -> Any:
    """A descriptor in a form that unpickles as the child's own descriptor.

    This avoids the standard library's wrappers where it can: they belong to the modules that start children,
    and the child would have to import these modules.
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
    """A descriptor that the fork server passes to the child, as its index among these."""

    def __init__(self, index: int) -> None:
        self._index = index

    def __reduce__(self) -> Any:
        return (child_boot.inherited, (self._index,))


def invitation_for(popen: Any) -> Invitation:
    """The invitation of the child that `popen` is about to start."""
    invitation: Invitation | None = getattr(popen, _ATTRIBUTE, None)
    if invitation is None:
        invitation = Invitation()
        setattr(popen, _ATTRIBUTE, invitation)
    return invitation


def is_for_forks_only(ctx: Any) -> bool:
    """Tells whether objects of this context may be passed to forked children only.

    Forklift's objects could be passed to any child. But programs may rely on the standard library's error.
    """
    try:
        return bool(_REFUSED and ctx._name == "fork")  # no method call, since each new lock comes here
    except AttributeError:
        chosen = _std_context._default_context.get_context() if ctx is None else ctx
        return bool(chosen.get_start_method() == "fork")


def invitation_to_share(shared: Any) -> Invitation:
    """The invitation of the child that is being started, to which `shared` is passed.

    RuntimeError if no child is being started, or if `shared` is for forked children only.
    """
    _std_context.assert_spawning(shared)
    if shared._is_fork_ctx:
        raise RuntimeError(
            "A SemLock created in a fork context is being shared with a process in a spawn context. This is "
            "not supported. Please use the same context to create multiprocessing objects and Process."
        )
    return invitation_for(_std_context.get_spawning_popen())


def is_invited(popen: Any) -> bool:
    """Tells whether the child that `popen` starts has an invitation. False if `popen` is None."""
    return getattr(popen, _ATTRIBUTE, None) is not None


def parent_sentinel() -> int:
    """A descriptor that becomes readable when this process's parent is gone; -1 in a main process."""
    parent = _std_process.parent_process()
    return -1 if parent is None else int(parent.sentinel)


def _after_fork(_key: Any) -> None:
    # The last of all finalizers. A process that ends without running it has not ended in good order.
    _std_util.Finalize(None, _core.mark_clean, exitpriority=-100)


class _Key:
    """A key for register_after_fork, which holds its keys weakly."""


_key = _Key()
_std_util.register_after_fork(_key, _after_fork)

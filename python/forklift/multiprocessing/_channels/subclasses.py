"""Finds the subclasses that get the standard library's engine: those that rely on how it works inside.

The standard library's pool has threads and two queues, its queue a feeder thread, a buffer and a pipe. A
subclass that overrides one of their private hooks, or uses one of their private parts, counts on them
(joblib's pools, loky's queues). Its instances are the standard library's in all but their class.
"""

from __future__ import annotations

import types
from collections.abc import Iterator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["is_private", "overridden", "relies_on_the_feeder"]

# Private, but meant to be overridden, and called by our queues as well.
_HOOKS = ("_on_queue_feeder_error",)
# What only the standard library's queues have: the names by which a method of a subclass's own uses them.
_PARTS = frozenset(("_buffer", "_feed", "_notempty", "_recv_bytes", "_send_bytes", "_start_thread"))
_STATE = ("__getstate__", "__setstate__")


def overridden(kind: type) -> dict[str, Any]:
    """The members that the classes between `kind` and Forklift's nearest class define."""
    found: dict[str, Any] = {}
    for each in kind.__mro__:
        if each.__module__.partition(".")[0] == "forklift":
            break
        found = {**vars(each), **found}
    return found


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in _HOOKS


def relies_on_the_feeder(kind: type, standard: type) -> bool:
    """Tells whether a queue's subclass relies on the standard library's buffer, feeder thread and pipe."""
    members = overridden(kind)
    for name, member in members.items():
        if is_private(name) and hasattr(standard, name):
            return True
        used = set(_names(member))
        # A state of its own is made from private attributes, unless it has the base class's state in it.
        if (name in _STATE and name not in used) or used & _PARTS:
            return True
    return False


def _names(member: Any) -> Iterator[str]:
    """The attributes and globals that a method uses, those of functions inside of it included."""
    for part in (
        member,
        *(getattr(member, each, None) for each in ("__func__", "fget", "fset", "__wrapped__")),
    ):
        code = getattr(part, "__code__", None)
        if isinstance(code, types.CodeType):
            yield from _names_in(code)


def _names_in(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield from _names_in(each)

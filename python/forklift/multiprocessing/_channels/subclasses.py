"""Finds the subclasses that need the standard library's engine, because they rely on how it works inside.

The standard library's pool has threads and two queues; its queue has a feeder thread, a buffer and a pipe. A
subclass that overrides one of their private hooks, or uses one of their private parts, relies on them
(joblib's pools, loky's queues). Its instances behave as the standard library's (decisions/0085 and 0140).
"""

from __future__ import annotations

import types
from collections.abc import Iterator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["is_private", "overridden", "relies_on_the_feeder", "wishes"]

# Private names that are meant to be overridden, and that Forklift's queues call as well.
_HOOKS = ("_on_queue_feeder_error",)
# Parts that only the standard library's queues have. A method that uses one of these names relies on it.
_PARTS = frozenset(("_buffer", "_feed", "_notempty", "_recv_bytes", "_send_bytes", "_start_thread"))
_STATE = ("__getstate__", "__setstate__")


def wishes(as_: str | None, copy: bool) -> dict[str, Any]:
    """The keywords of a get that say something: a subclass may override get() without them."""
    return ({} if as_ is None else {"as_": as_}) | ({} if copy else {"copy": False})


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
        # A __getstate__ or __setstate__ that does not call the base class's uses its private attributes.
        if (name in _STATE and name not in used) or used & _PARTS:
            return True
    return False


def _names(member: Any) -> Iterator[str]:
    """The attributes and globals that a method, and the functions inside it, use."""
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

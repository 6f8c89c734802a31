"""What becomes of a node's tasks that have no value, as the driver is told of it.

The core of the node's pool calls these functions by their names, in place of those that make exceptions
(forklift.multiprocessing._pool.failures). Here they return tuples of plain values: the driver makes the
exceptions, with its own names for the call and the items.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["cancelled", "ended", "revive", "stopped", "undecodable", "unreadable"]


def cancelled(_label: Any) -> tuple[Any, ...]:
    """The task had not begun when the driver asked for it back."""
    return ("cancelled",)


def ended(_label: Any, _index: int, late: bool, pid: int, exitcode: int) -> tuple[Any, ...]:
    """The worker died, or was killed because the task was over its time (`late`)."""
    return ("ended", late, pid, exitcode)


def revive(_label: Any, _index: int, description: Any) -> tuple[Any, ...]:
    """The worker described an exception that was not the task's own."""
    return ("revive", description)


def undecodable(_label: Any, _index: int, reason: BaseException) -> tuple[Any, ...]:
    """The worker's answer could not be decoded. Raises `reason` if that is no Exception."""
    if not isinstance(reason, Exception):
        raise reason
    return ("unreadable", repr(reason))


def unreadable(_label: Any, _index: int, why: str) -> tuple[Any, ...]:
    """The worker could not use the task's message."""
    return ("unreadable", why)


def stopped(_label: Any, _index: int, why: str, last_words: Any) -> tuple[Any, ...]:
    """The node's pool stopped before the task ended."""
    return ("stopped", why, last_words)

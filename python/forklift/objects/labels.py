"""Labels: names for people.

    frames = forklift.PortableQueue(8)
    forklift.set_label(frames, "frames")
    forklift.label_of(frames)                 # "frames", in every process

Messages of C++ programs show them; Python's keep the standard library's words.

A label belongs to the object in shared memory: every process sees it. It need not be unique, and nothing is
found by it (``Domain.publish`` is for that, which also labels what has no label yet). In C++:
``forklift/label.h``.
"""

from __future__ import annotations

from typing import Any

from forklift import _core
from forklift.objects.naming import _identity

__all__ = ["label_of", "set_label"]


def set_label(obj: Any, label: str) -> None:
    """Give a queue, lock, event, barrier, condition, Broadcast or Latest a label; with ``""`` none.

    ValueError: more than 64 bytes of UTF-8, or control characters. TypeError: an object without a label.
    """
    _core.set_row_label(*_identity(obj)[:3], label)


def label_of(obj: Any) -> str:
    """The object's label; empty if it has none."""
    return _core.row_label(*_identity(obj)[:3])

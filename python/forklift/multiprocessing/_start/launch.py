"""The launch: what the parent does when it starts a child.

Before a fork it makes the domain, which the child inherits. A child that is a fresh interpreter gets its
process object behind an invitation, and behind the functions of `forklift.child_boot.add_task`.
"""

from __future__ import annotations

import io
import operator
import os
from multiprocessing import reduction as _std_reduction
from multiprocessing import util as _std_util

from forklift import _core, child_boot
from forklift.multiprocessing._start.executors import report_last_result
from forklift.multiprocessing._start.invitation import Invitation, descriptor_for_child
from forklift.multiprocessing._start.lifeline import lifeline_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["PackedProcess", "ensure_domain"]

_FOLDER = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


def ensure_domain() -> None:
    """Make the domain before a fork, so that parent and child are in the same one.

    A process that cannot have one (for lack of address space, say) can still fork; its queues will say what
    is wrong.
    """
    try:
        _core.ensure_domain()
    except Exception as error:
        _std_util.info("forklift: no domain: %s", error)


class PackedProcess:
    """A process object with the invitation in front of it: the child has joined before it unpickles queues.

    Stands for the process object in the standard library's ``Popen._launch``.
    """

    def __init__(self, process_obj: Any, invitation: Invitation) -> None:
        report_last_result(process_obj)
        self._name = _PackedName(process_obj._name, invitation, _Lifeline(lifeline_for(process_obj)))
        self._contents = (invitation, process_obj)

    def __reduce__(self) -> Any:
        # A pickle of its own, since arrays in shared memory need a reducer that the standard library's
        # pickler must not have: registered there, it would count for all of the program's pickling.
        from forklift.reducers import spawn_table  # not for forks

        stream = io.BytesIO()
        pickler: Any = _std_reduction.ForkingPickler(stream)
        pickler.dispatch_table = spawn_table()
        pickler.dump(self._contents)
        return (child_boot.unpack, (stream.getvalue(), child_boot.tasks()))


class _PackedName:
    """The process's name, with its lifeline and the invitation in front of it.

    It is part of the preparation data, so the child has joined before it imports the program's main module,
    which may make locks and queues of its own. Its ``sys.path`` is not its parent's yet.
    """

    def __init__(self, name: str, invitation: Invitation, line: _Lifeline) -> None:
        self._parts = (_PathEntry(), line, invitation, name)

    def __reduce__(self) -> Any:
        return (operator.getitem, (self._parts, -1))


class _PathEntry:
    """Makes the child find this package."""

    def __reduce__(self) -> Any:
        code = f"import sys; {_FOLDER!r} in sys.path or sys.path.append({_FOLDER!r})"
        return (exec, (code, {}))


class _Lifeline:
    """A lifeline's descriptor as a fresh interpreter gets it; None for a child without a lifeline."""

    def __init__(self, read_end: int | None) -> None:
        self._read_end = read_end

    def __reduce__(self) -> Any:
        return (
            child_boot.begin,
            (None if self._read_end is None else descriptor_for_child(self._read_end),),
        )

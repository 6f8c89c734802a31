"""The parent's side of starting a child.

Before a fork the parent makes the domain, which the child inherits. A child that is a fresh interpreter
receives first the invitation, then the functions of `forklift.child_boot.add_task`, then its process object.
"""

from __future__ import annotations

import io
import operator
from multiprocessing import reduction as _std_reduction
from multiprocessing import util as _std_util

from forklift import _core, child_boot
from forklift.multiprocessing._start.executors import report_last_result
from forklift.multiprocessing._start.invitation import Invitation, descriptor_for_child
from forklift.multiprocessing._start.lifeline import lifeline_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["NamedProcess", "ensure_domain", "pack"]


def ensure_domain() -> None:
    """Make the domain before a fork, so that parent and child are in the same one.

    A process that cannot have a domain (for lack of address space, say) can still fork. The first queue that
    it makes raises the error.
    """
    try:
        _core.ensure_domain()
    except Exception as error:
        _std_util.info("forklift: no domain: %s", error)


class NamedProcess:
    """Stands for a process object in the standard library's fork, and names the child in its domain."""

    def __init__(self, process_obj: Any, started: Any) -> None:
        self._name = process_obj.name
        self._started = started

    def _bootstrap(self, parent_sentinel: int | None = None) -> int:
        _core.name_process(self._name)
        code: int = self._started._bootstrap(parent_sentinel=parent_sentinel)
        return code


def pack(popen: Any, process_obj: Any, invitation: Invitation) -> bytes:
    """What a child that is no fork reads, as the standard library's ``Popen._launch`` packs it."""
    from multiprocessing import spawn as _std_spawn  # forks do not need them
    from multiprocessing.context import set_spawning_popen

    _core._torch.meet()  # the arguments may be torch's tensors
    packed = _PackedProcess(process_obj, invitation)
    preparation = _std_spawn.get_preparation_data(packed.name)
    data = io.BytesIO()
    set_spawning_popen(popen)
    try:
        _std_reduction.dump(preparation, data)
        _std_reduction.dump(packed, data)
    finally:
        set_spawning_popen(None)
    # Not its view: a start that fails leaves a cycle, and Python 3.12.1 crashes when it collects it with
    # a view (gh-111049).
    return data.getvalue()


class _PackedProcess:
    """A process object behind its invitation, so that the child has joined before it unpickles queues."""

    def __init__(self, process_obj: Any, invitation: Invitation) -> None:
        report_last_result(process_obj)
        self.name: Any = _PackedName(process_obj._name, invitation, _Lifeline(lifeline_for(process_obj)))
        self._contents = (invitation, process_obj)

    def __reduce__(self) -> Any:
        # A pickle of its own, since arrays in shared memory need a reducer that must not be registered with
        # the standard library's pickler: there it would apply to everything that the program pickles.
        from forklift.reducers import spawn_table  # forks do not need it

        stream = io.BytesIO()
        pickler: Any = _std_reduction.ForkingPickler(stream)
        pickler.dispatch_table = spawn_table()
        pickler.dump(self._contents)
        return (child_boot.unpack, (stream.getvalue(), child_boot.tasks()))


class _PackedName:
    """The process's name, behind its lifeline and its invitation.

    The name is part of the preparation data, so the child has joined before it imports the program's main
    module, which may make locks and queues of its own. The child has not got its parent's ``sys.path`` yet.
    """

    def __init__(self, name: str, invitation: Invitation, line: _Lifeline) -> None:
        self._parts = (_PathEntry(), line, invitation, name)

    def __reduce__(self) -> Any:
        return (operator.getitem, (self._parts, -1))


class _PathEntry:
    """Unpickles as None, and adds this package's folder to the child's ``sys.path``."""

    def __reduce__(self) -> Any:
        return (exec, (child_boot.find_package(), {}))


class _Lifeline:
    """Unpickles as a call of `forklift.child_boot.begin` with the lifeline's descriptor, or with None."""

    def __init__(self, read_end: int | None) -> None:
        self._read_end = read_end

    def __reduce__(self) -> Any:
        return (
            child_boot.begin,
            (None if self._read_end is None else descriptor_for_child(self._read_end),),
        )

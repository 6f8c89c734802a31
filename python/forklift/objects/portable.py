"""Queues with a C++ end, and programs in any language as children.

    frames = forklift.PortableQueue()
    simulator = forklift.Program(["./simulator"], channels={"frames": frames})
    image = frames.get()            # a NumPy array over the memory that the simulator wrote

In the C++ program: ``forklift::Queue<forklift::Value>::inherited("frames")``. In a Python program that was
started this way: ``forklift.inherited("frames")``.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from forklift import _core
from forklift.multiprocessing.queues import Queue

__all__ = ["PortableQueue", "Program", "inherited"]

_ARRAYS = 1  # formats of _core.QueueBase._set_format
_TENSORS = 2


class PortableQueue(Queue):
    """A queue of values that C++ and Python programs both know.

    These values are None, bool, int (64 bits), float, str, bytes, list and dict (keys are numbers, str or
    bytes) of such values, NumPy arrays and scalars of numbers, and ``forklift.Tensor``. A tuple arrives as a
    list. ``put`` raises ``TypeError`` for anything else.

    A tensor arrives as memory that is shared with its other holders; an array is copied into shared memory
    when it is sent. The receiver gets a NumPy array over that memory, or with ``tensors=True`` a
    ``forklift.Tensor``; for bfloat16, which NumPy does not know, always a Tensor.
    """

    _FLAGS = 1  # of the channel: it holds portable values

    def __init__(
        self, maxsize: int = 0, *, tensors: bool = False, ctx: Any = None, framework: str | None = None
    ) -> None:
        super().__init__(maxsize, ctx=ctx, strict=True, framework=framework)
        self._arrive_as(tensors)

    def _arrive_as(self, tensors: bool) -> None:
        self._tensors = tensors
        self._set_format(_TENSORS if tensors else _ARRAYS)

    def __getstate__(self) -> Any:
        return (super().__getstate__(), self._tensors)

    def __setstate__(self, state: Any) -> None:
        inner, tensors = state
        super().__setstate__(inner)
        self._arrive_as(tensors)


def inherited(name: str, *, tensors: bool = False) -> PortableQueue:
    """The queue that the parent, the program that started this one, passed under `name`.

    ValueError if there is none of that name; a ``ForkliftError`` if the parent's domain cannot be joined.
    """
    queue = PortableQueue.__new__(PortableQueue)
    _core.open_inherited(queue, name)
    queue._begin(queue._capacity())
    queue._arrive_as(tensors)
    return queue


def _accept_invitation() -> None:
    try:
        _core.accept_invitation()
    except Exception:
        pass  # inherited() raises it again, in a place where the program can handle it
    for name in ("FORKLIFT_DOMAIN", "FORKLIFT_CHANNELS"):
        os.environ.pop(name, None)


class Program(subprocess.Popen[bytes]):
    """Another program, in any language, as a child that shares this process's domain.

    ``channels`` maps names to the queues that the child inherits; the child keeps them even if this process
    drops them. All other arguments are those of ``subprocess.Popen``. What the program held in the domain is
    given back when its end is noticed: by ``wait`` or ``poll`` here, or by any other process of the domain.
    """

    def __init__(
        self,
        argv: Sequence[str | os.PathLike[str]],
        *,
        channels: Mapping[str, Queue] | None = None,
        env: Mapping[str, str] | None = None,
        pass_fds: Iterable[int] = (),
        **options: Any,
    ) -> None:
        invitation = _core.invite_program(list((channels or {}).items()))
        try:
            environment = dict(os.environ if env is None else env)
            environment.update(invitation.variables)
            descriptors = (*pass_fds, *invitation.descriptors)
            super().__init__(argv, env=environment, pass_fds=descriptors, **options)
        finally:
            invitation.close()

    def poll(self) -> int | None:
        known = self.returncode
        code = super().poll()
        if known is None and code is not None:
            _core.reap()
        return code

    def wait(self, timeout: float | None = None) -> int:
        code = super().wait(timeout)
        _core.reap()
        return code

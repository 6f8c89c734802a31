"""The order of a rank's calls, and who does them: the calling thread, or a thread of the group's.

A call is done in the calling thread if it has to be over when it returns. An asynchronous one is done
there, too, if the other ranks of the machine have issued it already, since it waits for nobody then: this
spares two wake-ups, which take longer than reducing a megabyte. Otherwise the group's thread does it.

Each rank counts the calls that it has issued in shared memory, where the others read it. The counts decide
only who does a call and what a time-out's message says.

Thread safety: yes; calls of several threads are done in the order in which they were issued.
"""

from __future__ import annotations

import ctypes
import os
import queue
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, TypeAlias

import torch

from forklift.adapters.torch.distributed.work import Work, done
from forklift.errors import BrokenByForkError

__all__ = ["Action", "Counts", "Runner"]

# For so long the calling thread looks whether the others issue the call, before it leaves it to the thread.
# C++ is more patient, that is DDP's backward(), which has no use for the time: it soon waits for the call.
_LOOK_S = 50e-6
_PATIENT_LOOK_S = 10e-3
_PAUSE_S = 20e-6
_PYTHONS_CALLER = "torch.distributed.distributed_c10d"
# For so long the end of the interpreter waits for a call that nobody has waited for.
_LAST_S = 5.0

Action: TypeAlias = "Callable[[float], object]"  # its argument: the time-out, in seconds
_Task: TypeAlias = "tuple[Action, float, Work] | None"
# The Work of all calls that had to be over when they returned.
_OVER = done([])


class Counts:
    """How many calls each rank of this machine has issued. ``tensor``: shared int64, ``stride`` a rank."""

    def __init__(self, tensor: Any, stride: int, rank: int, size: int) -> None:
        self._keep = torch.from_dlpack(tensor)
        # Reading an element of this takes 50 ns, of a tensor some microseconds.
        self._words = (ctypes.c_int64 * (stride * size)).from_address(self._keep.data_ptr())
        self._mine = rank * stride
        self._places = [other * stride for other in range(size)]
        self._others = [place for place in self._places if place != self._mine]

    def issue(self) -> int:
        count: int = self._words[self._mine] + 1
        self._words[self._mine] = count
        return count

    def all_have(self, count: int, patient: bool) -> bool:
        """Whether all ranks have issued that many, or do so in a moment."""
        words = self._words
        begun = 0.0
        for place in self._others:
            while words[place] < count:
                now = time.perf_counter()
                begun = begun or now
                if now - begun > _LOOK_S:
                    if not patient or now - begun > _PATIENT_LOOK_S:
                        return False
                    time.sleep(_PAUSE_S)
        return True

    def behind(self) -> list[int]:
        """The ranks of this machine that have issued fewer calls than this one."""
        mine = self._words[self._mine]
        return [rank for rank, place in enumerate(self._places) if self._words[place] < mine]


class Runner:
    """Does the calls of one group. ``close`` ends its thread."""

    def __init__(self, counts: Counts) -> None:
        self._counts = counts
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._busy = threading.Lock()  # held by the thread that does a call
        self._tasks: queue.SimpleQueue[_Task] = queue.SimpleQueue()
        self._waiting = [0]  # calls that the thread has still to end
        self._thread: threading.Thread | None = None
        self._closing: Any = None

    def run(self, what: str, action: Action, timeout: float, result: list[Any], asynchronous: bool) -> Any:
        """Do a call, or have it done. Returns its Work; raises the call's error if the call is over."""
        if os.getpid() != self._pid:
            raise BrokenByForkError(f"{what}: a forked child is no rank of its parent's process group")
        with self._lock:
            count = self._counts.issue()
            direct = self._waiting[0] == 0 and self._busy.acquire(blocking=False)
        if direct:
            try:
                if not asynchronous:
                    action(timeout)
                    return _OVER
                if self._counts.all_have(count, not _called_by_python()):
                    action(timeout)
                    return done(result)
            finally:
                self._busy.release()
        work = Work(result, what)
        with self._lock:
            self._waiting[0] += 1
            self._tasks.put((action, timeout, work))
            if self._thread is None:
                self._start()
        if not asynchronous:
            work.wait()
        return work

    def _start(self) -> None:
        parts = (self._tasks, self._busy, self._lock, self._waiting)
        self._thread = threading.Thread(target=_serve, args=parts, name="forklift-collectives", daemon=True)
        self._thread.start()
        self._closing = weakref.finalize(self, _end, self._tasks, self._thread, self._pid)

    def close(self) -> None:
        """Wait for the calls that are under way, and end the thread."""
        if self._closing is not None:
            self._closing()


def _called_by_python() -> bool:
    """Whether the program itself has made the call, and not DDP's C++."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__package__") == __package__:
        frame = frame.f_back
    return frame is not None and frame.f_globals.get("__name__") == _PYTHONS_CALLER


def _serve(tasks: Any, busy: Any, lock: Any, waiting: list[int]) -> None:
    while True:
        task = tasks.get()
        if task is None:
            return
        action, timeout, work = task
        error: BaseException | None = None
        with busy:
            try:
                action(timeout)
            except BaseException as raised:
                error = raised
        with lock:
            waiting[0] -= 1
        work.finish(error)
        # The tensors of a call must not stay until the next one.
        del task, action, work, error


def _end(tasks: Any, thread: threading.Thread, pid: int) -> None:
    if os.getpid() == pid:
        tasks.put(None)
        if thread is not threading.current_thread():
            thread.join(_LAST_S)

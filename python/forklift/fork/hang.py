"""Notices a child that hangs within its first seconds: ``Process.start(timeout=seconds)``.

A child counts as hanging if

- it was forked and has not come to its ``run()`` within the seconds,
- within the seconds each of its threads waits, without a time-out, for a lock that only one of themselves
  could release (`forklift._core._guard.blocked_threads`), and that did not change between two looks, or
- each of its threads waits for such a lock, be it with a time-out, nothing of the child has run for half of
  the seconds, and its main thread waits inside of a native library, not in a lock of Python's.

``start()`` raises if it has not returned; later a thread prints the error, and ``join()`` raises it. The
error has the stacks of the child, and the child is killed. A child that works, sleeps, or waits for another
process or for a descriptor never counts as hanging. One that waits for itself when the seconds are over is
watched until it moves or counts as hanging: on a loaded machine it may have begun late.

The thread exists while there are children to watch. It stops for the time of each fork.
"""

from __future__ import annotations

import faulthandler
import os
import re
import select
import signal
import sys
import threading
import time
from contextlib import ExitStack

from forklift import _core
from forklift.errors import ForkHangError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["StackFile", "WatchedProcess", "check_seconds", "watch_child"]

_LOOK_S = 0.1  # between two looks at a child
_ANSWER_S = 2.0  # within which a child writes its stacks
# In a native stack: frames of the C library, and of the interpreter.
_OF_C = re.compile(r"(^|/)(libc|libpthread|ld-linux|linux-vdso)[^/]*\.so[^/]*$")
_OF_PYTHON = re.compile(r"(^|/)(libpython|python)[\d.]*[^/]*$")
_END = _core._guard.END_OF_STACK.encode()


def check_seconds(seconds: float | None) -> float | None:
    """The time-out. ValueError unless it is positive."""
    if seconds is not None and not seconds > 0:
        raise ValueError(f"a time-out is a positive number of seconds, not {seconds!r}")
    return seconds


class StackFile:
    """What a forked child inherits: a file for its stacks, two signals that make it write them, and a pipe.

    The signals' handlers are installed while the fork happens, so that they work in the child from its first
    instruction, whatever hangs there.
    """

    def __init__(self) -> None:
        self._close = ExitStack()
        self.file = os.memfd_create("forklift-stacks", os.MFD_CLOEXEC)
        self._close.callback(os.close, self.file)
        self.reached, self._write_end = os.pipe()
        self._close.callback(os.close, self.reached)
        self.native = self.python = 0

    def __enter__(self) -> StackFile:
        try:
            self.native = _core._guard.arm_stacks(self.file)
            self.python = _core._guard.unused_signal(self.native)
            if self.python:
                faulthandler.register(self.python, file=self.file, all_threads=True)
        except _core_errors as error:
            from multiprocessing import util

            util.info("forklift: no stacks of a child that hangs: %s", error)
        return self

    def __exit__(self, *_: object) -> None:
        """In the parent, after the fork."""
        if self.python:
            faulthandler.unregister(self.python)
        if self.native:
            _core._guard.disarm_stacks(self.native)
        os.close(self._write_end)

    def report_reached(self) -> None:
        """In the child."""
        os.write(self._write_end, b"1")
        os.close(self._write_end)

    def close(self) -> None:
        self._close.close()

    def read(self, pid: int, threads: list[int]) -> str:
        """The child's stacks: Python's of all threads, and native ones of each."""
        os.ftruncate(self.file, 0)
        os.lseek(self.file, 0, os.SEEK_SET)  # parent and child have one position
        if self.python:
            self._ask(pid, pid, self.python, b"")
        for thread in sorted(threads, key=lambda each: each != pid):
            if self.native:
                self._ask(pid, thread, self.native, _END)
        with open(f"/proc/self/fd/{self.file}", errors="replace") as file:
            return file.read()

    def _ask(self, pid: int, thread: int, number: int, end: bytes) -> None:
        """Wait until the child has written, up to a line, or until nothing more comes."""
        before = size = os.fstat(self.file).st_size
        try:
            _core._guard.request_stack(pid, thread, number)
        except OSError:
            return  # it has ended
        pause = threading.Event()
        deadline = time.monotonic() + _ANSWER_S
        while time.monotonic() < deadline:
            pause.wait(0.02)
            last, size = size, os.fstat(self.file).st_size
            tail = os.pread(self.file, len(end), max(size - len(end), 0))
            if size > before and (tail == end if end else size == last):
                return


_core_errors = (OSError, MemoryError, RuntimeError, ValueError)


class WatchedProcess:
    """Stands for a process object in the standard library's fork, and tells the parent that `run` begins."""

    def __init__(self, process_obj: Any, stacks: StackFile) -> None:
        self._process_obj = process_obj
        self._stacks = stacks

    def _bootstrap(self, parent_sentinel: int | None = None) -> int:
        process_obj, stacks = self._process_obj, self._stacks
        run = process_obj.run

        def begin() -> Any:
            del process_obj.run
            stacks.report_reached()
            return run()

        process_obj.run = begin
        code: int = process_obj._bootstrap(parent_sentinel=parent_sentinel)
        return code


class _Child:
    """A child in its first seconds."""

    def __init__(self, popen: Any, name: str, seconds: float) -> None:
        self.popen = popen
        self.name = name
        self.seconds = seconds
        self.deadline = time.monotonic() + seconds
        # At the last look: whether it was deadlocked, and its ticks if it waited for itself.
        self._last: tuple[bool, int | None] = (False, None)
        self._still_since = 0.0
        self._undecided = False  # it waits for itself, and for how long is not known yet

    def hangs(self) -> str:
        """Look once more. The answer is why the child hangs, or empty."""
        try:
            deadlocked, for_itself, ticks, _ = _core._guard.blocked_threads(self.popen.pid)
        except Exception:
            self._undecided = False
            return ""  # it has ended, or the kernel does not tell
        before, self._last = self._last, (deadlocked, ticks if for_itself else None)
        now = time.monotonic()
        if not for_itself or before[1] != ticks:
            self._still_since = now
            self._undecided = for_itself
        elif deadlocked and before[0]:
            return "each of its threads waits for a lock that only this process could release"
        elif now - self._still_since >= self.seconds / 2:
            self._still_since = now
            self._undecided = False
            if self._waits_in_library():
                return f"it waits inside of a native library, and nothing ran for {self.seconds / 2:g} s"
        return ""

    def is_over(self) -> bool:
        """Whether its seconds are, and what it waits for is known."""
        return time.monotonic() > self.deadline and not self._undecided

    def _waits_in_library(self) -> bool:
        stacks = getattr(self.popen, "_stacks", None)
        if stacks is None:
            return False
        text: str = stacks.read(self.popen.pid, [self.popen.pid]).rpartition(f"thread {self.popen.pid} ")[2]
        frames = [line for line in text.splitlines()[1:] if "[0x" in line and not _OF_C.search(line)]
        return bool(frames) and not _OF_PYTHON.search(frames[0])

    def error(self, why: str) -> ForkHangError:
        """What is known of the child, which is killed."""
        pid, stacks = self.popen.pid, getattr(self.popen, "_stacks", None)
        try:
            threads = _core._guard.blocked_threads(pid)[3]
        except Exception:
            threads = []
        waits = "\n".join(f"  thread {tid} {name}: {state} {wait}" for tid, name, state, wait in threads)
        text = stacks.read(pid, [each[0] for each in threads]) if stacks is not None else ""
        if not text:
            text = "(no stacks: the child is a fresh interpreter, or blocks the signals that ask for them)\n"
        hang = ForkHangError(
            f"child {self.name} (pid {pid}) hangs: {why}; it was killed\n{waits}\n{text}",
            pid=pid,
            stacks=text,
        )
        self.popen.hang = hang
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        return hang


def watch_child(process_obj: Any, seconds: float) -> None:
    """In the parent, after the start: wait until the child runs, then go on watching it in a thread."""
    child = _Child(process_obj._popen, process_obj.name, seconds)
    stacks = getattr(child.popen, "_stacks", None)
    try:
        while stacks is not None:
            ready = select.select([stacks.reached, child.popen.sentinel], [], [], _LOOK_S)[0]
            if ready:
                break
            why = child.hangs()
            if why or time.monotonic() > child.deadline:
                why = why or f"it has not come to its function within {seconds:g} s"
                error = child.error(why)
                child.popen.wait()
                raise error
    except BaseException:
        if stacks is not None:
            stacks.close()
        raise
    _watcher.add(child)


class _Watcher:
    """The thread that watches all children that are in their first seconds."""

    def __init__(self) -> None:
        self._children: list[_Child] = []
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._handles_forks = False

    def add(self, child: _Child) -> None:
        if not self._handles_forks:
            self._handles_forks = True
            os.register_at_fork(
                before=self._before_fork, after_in_parent=self._start, after_in_child=self._forget
            )
        self._before_fork()
        self._children.append(child)
        self._start()

    def _start(self) -> None:
        if self._children and self._thread is None:
            self._stop.clear()
            self._thread = threading.Thread(target=self._watch, name="forklift-fork-watch", daemon=True)
            self._thread.start()

    def _before_fork(self) -> None:
        thread = self._thread
        if thread is not None and thread.ident != threading.get_ident():
            self._stop.set()
            thread.join()
            self._thread = None

    def _forget(self) -> None:
        self.__init__()  # type: ignore[misc]
        self._handles_forks = True

    def _watch(self) -> None:
        while not self._stop.wait(_LOOK_S):
            for child in list(self._children):
                if self._is_done(child):
                    self._children.remove(child)
                    stacks = getattr(child.popen, "_stacks", None)
                    if stacks is not None:
                        stacks.close()
            if not self._children:
                self._thread = None
                return

    def _is_done(self, child: _Child) -> bool:
        why = child.hangs()
        if why:
            error = child.error(why)
            print(f"forklift: {error}", file=sys.stderr, flush=True)
            return True
        try:
            ended = select.select([child.popen.sentinel], [], [], 0)[0]
        except (OSError, ValueError):
            return True  # the process object was closed
        return bool(ended) or child.is_over()


_watcher = _Watcher()

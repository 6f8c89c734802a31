"""``python -m forklift --report`` prints at a program's end how many bytes its processes sent each other.

Every process counts in its own page of one file, so the counts of a killed process are not lost. It counts
what Forklift's queues, pipes, pools, executors and managers put and send.

    inside messages   bytes of small objects and pickles, which lie in the queue itself
    copied            bytes of arrays, buffers and long pickles, copied once into shared memory
    as handles        bytes that lay in shared memory already (tensors, shared and frozen arrays), not copied
    through pipes     bytes of payload that went through a pipe or a socket
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys
import tempfile
from dataclasses import dataclass
from multiprocessing import util as _std_util
from typing import TextIO

from forklift import _core
from forklift.patch import begin_children_with

__all__ = ["Totals", "begin", "follow", "read"]

_VARIABLE = "FORKLIFT_REPORT"
_PAGE = 4096
# The struct Counters of bindings/core/stats.h.
_ROW = struct.Struct("=7Q")


@dataclass(frozen=True)
class Totals:
    """The sums of the counts of all processes."""

    processes: int
    messages: int
    inside: int
    copied: int
    handles: int
    pipes: int

    def __str__(self) -> str:
        saved = self.inside + self.copied + self.handles
        lines = [
            ("processes", f"{self.processes}", "that sent or received something"),
            ("messages", f"{self.messages:,}", ""),
            ("inside messages", _amount(self.inside), "small objects and pickles"),
            ("copied", _amount(self.copied), "arrays and buffers, once, into shared memory"),
            ("as handles", _amount(self.handles), "in shared memory already, not copied"),
            ("through pipes", _amount(self.pipes), "payload in pipes and sockets"),
            ("saved", _amount(saved), "not written to a pipe and read from it again"),
        ]
        rows = [f"  {name:<16}{amount:>12}   {words}".rstrip() for name, amount, words in lines]
        return "\n".join(["forklift: what travelled", *rows])


def begin(stream: TextIO | None = None) -> None:
    """Start counting in a program's first process, and print the sums of all its processes at its end."""
    if os.sysconf("SC_PAGE_SIZE") != _PAGE:
        raise SystemExit(f"--report needs memory pages of {_PAGE} bytes")
    handle, path = tempfile.mkstemp(prefix="forklift-report-")
    os.close(handle)
    os.environ[_VARIABLE] = path
    follow()
    # At a lower priority than all that multiprocessing does at exit: by then it has joined the children.
    _std_util.Finalize(None, _finish, (path, stream or sys.stderr), exitpriority=-200)


def follow() -> None:
    """Start counting in this process and in its children. For any process of a program under --report."""
    _count(from_zero=False)
    os.register_at_fork(after_in_child=_count_in_child)
    begin_children_with("from forklift.cli.report import follow as _f; _f(); ")


def _count_in_child() -> None:
    _count(from_zero=True)


def _count(from_zero: bool) -> None:
    try:
        file = os.open(os.environ[_VARIABLE], os.O_RDWR | os.O_CLOEXEC)
    except (KeyError, OSError):
        return  # the program's first process has ended, so no process reads the file
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        offset = os.fstat(file).st_size
        os.ftruncate(file, offset + _PAGE)
        # Closing the file would not unlock it, since the mapping keeps the open file description.
        fcntl.flock(file, fcntl.LOCK_UN)
        _core.count_into(file, offset, from_zero)
    finally:
        os.close(file)


def read(path: str) -> Totals:
    with open(path, "rb") as file:
        data = file.read()
    rows = [_ROW.unpack_from(data, offset) for offset in range(0, len(data), _PAGE)]
    busy = [row for row in rows if row[0] or row[1]]
    put, _got, inside, copied, handles, pipes, _pid = (sum(column) for column in zip(*rows, strict=True))
    return Totals(len(busy), put, inside, copied, handles, pipes)


def _finish(path: str, stream: TextIO) -> None:
    totals = read(path)
    os.unlink(path)
    try:
        print(totals, file=stream, flush=True)
    except OSError:
        pass  # the stream is closed


def _amount(count: int) -> str:
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"

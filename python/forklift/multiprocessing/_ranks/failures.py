"""The exceptions by which ``spawn`` tells which rank has failed, and how.

Classes, fields and messages are those of ``torch.multiprocessing``. Besides, the exception that ended the
rank is the ``__cause__``, if it can be unpickled here, and the failures of other ranks are notes.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from typing import Any, NamedTuple

__all__ = ["Failure", "ProcessException", "ProcessExitedException", "ProcessRaisedException", "error_of"]

_PUBLIC = "forklift.multiprocessing.spawn"
# Of the traceback of each rank but the one that the exception is about.
_NOTE_CHARACTERS = 4000


class ProcessException(Exception):
    """A rank has failed. ``error_index`` is its rank, ``error_pid`` its process id."""

    __module__ = _PUBLIC
    __slots__ = ["error_index", "error_pid"]

    def __init__(self, msg: str, error_index: int, error_pid: int) -> None:
        super().__init__(msg)
        self.msg = msg
        self.error_index = error_index
        self.error_pid = error_pid

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.error_pid)


class ProcessRaisedException(ProcessException):
    """An exception left a rank's function; the message has its traceback."""

    __module__ = _PUBLIC


class ProcessExitedException(ProcessException):
    """A rank was ended by a signal (``signal_name``), or exited with a code other than 0 (``exit_code``)."""

    __module__ = _PUBLIC
    __slots__ = ["exit_code"]

    def __init__(
        self,
        msg: str,
        error_index: int,
        error_pid: int,
        exit_code: int,
        signal_name: str | None = None,
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code = exit_code
        self.signal_name = signal_name

    def __reduce__(self) -> Any:
        return (
            type(self),
            (self.msg, self.error_index, self.error_pid, self.exit_code, self.signal_name),
        )


class Failure(NamedTuple):
    """How one rank failed."""

    rank: int
    pid: int
    exit_code: int
    traceback: str | None = None  # None: no exception was reported
    original: BaseException | None = None

    @property
    def weight(self) -> int:
        """How much it tells of the cause: a rank that raised may have made others exit, or be killed."""
        return 2 if self.traceback is not None else int(self.exit_code > 0)

    def note(self) -> str:
        if self.traceback is None:
            return f"Process {self.rank:d} (pid {self.pid:d}) {self._exit()}, too."
        text = self.traceback.rstrip()
        if len(text) > _NOTE_CHARACTERS:
            text = "..." + text[-_NOTE_CHARACTERS:]
        return f"Process {self.rank:d} (pid {self.pid:d}) terminated with an error, too:\n{text}"

    def error(self) -> ProcessException:
        if self.traceback is None:
            text = f"process {self.rank:d} {self._exit()}"
            name = _signal_name(-self.exit_code) if self.exit_code < 0 else None
            return ProcessExitedException(text, self.rank, self.pid, self.exit_code, name)
        text = f"\n\n-- Process {self.rank:d} terminated with the following error:\n{self.traceback}"
        error = ProcessRaisedException(text, self.rank, self.pid)
        error.__cause__ = self.original
        return error

    def _exit(self) -> str:
        if self.exit_code < 0:
            return f"terminated with signal {_signal_name(-self.exit_code)}"
        return f"terminated with exit code {self.exit_code:d}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"<Unknown signal {number}>"


def error_of(failures: Sequence[Failure]) -> ProcessException:
    """The exception for the first failure; the others are its notes."""
    error: Any = failures[0].error()
    notes = [each.note() for each in failures[1:]]
    if notes:
        if hasattr(error, "add_note"):
            for each in notes:
                error.add_note(each)
        else:  # Python 3.10, which keeps the attribute and does not print it
            error.__notes__ = notes
    found: ProcessException = error
    return found

"""Files without a name: reports of ranks, and the arguments that all ranks read."""

from __future__ import annotations

import contextlib
import os
import pickle
import tempfile

from forklift.multiprocessing._ranks.rank import Begun, ReportWriter
from forklift.multiprocessing._start.invitation import descriptor_for_child

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["NamelessFile", "Report", "Turn", "read_report"]

_MFD_NOEXEC_SEAL = 8  # from Linux 6.3 on; some systems refuse a file in memory without it


def _nameless_descriptor() -> int:
    for flags in (os.MFD_CLOEXEC | _MFD_NOEXEC_SEAL, os.MFD_CLOEXEC):
        try:
            return os.memfd_create("forklift-rank", flags)
        except OSError:
            continue
    with tempfile.TemporaryFile() as file:  # no name, either
        return os.dup(file.fileno())


class NamelessFile:
    """A file that is gone when the last process that has it open is gone, however that ends."""

    def __init__(self) -> None:
        self.fd = -1
        self.fd = _nameless_descriptor()

    def __del__(self) -> None:
        if self.fd >= 0:
            with contextlib.suppress(OSError):  # the program has closed all descriptors
                os.close(self.fd)


class Report(NamelessFile):
    """Where one rank reports the exception that ended it."""

    def __init__(self) -> None:
        super().__init__()
        # As in torch a path of a file that is written only if an exception ends the rank. It exists from the
        # beginning, empty, for as long as this process keeps the report.
        self.path = f"/proc/{os.getpid()}/fd/{self.fd}"

    def for_child(self, forked: bool) -> Any:
        return ReportWriter(self.fd) if forked else _SentWriter(self)


class _SentWriter:
    """Unpickles in a fresh interpreter as the ReportWriter."""

    def __init__(self, report: Report) -> None:
        self._report = report

    def __reduce__(self) -> Any:
        return ReportWriter, (descriptor_for_child(self._report.fd),)


class Turn:
    """Waits until a rank has unpickled its arguments. It is passed to the rank."""

    def __init__(self) -> None:
        self._ends = list(os.pipe())  # the read end, and the write end until the rank has been started

    def __del__(self) -> None:
        for end in self._ends:
            os.close(end)

    def __reduce__(self) -> Any:
        return Begun, (descriptor_for_child(self._ends[1]),)

    def wait(self) -> None:
        """Called once, when the rank was started. Returns also when the rank has ended."""
        os.close(self._ends.pop())
        os.read(self._ends[0], 1)


def read_report(path: str) -> tuple[str, BaseException | None] | None:
    """The traceback and, if it can be unpickled, the exception. None if the rank has reported none."""
    try:
        with open(path, "rb") as file:
            text = pickle.load(file)
            try:
                original = pickle.loads(pickle.load(file))
            except Exception:
                # The program's own error files hold no exception; and unpickling one may fail in any way.
                original = None
    except (OSError, EOFError, pickle.UnpicklingError):
        return None  # nothing was written, or the rank was killed while it wrote
    return str(text), original if isinstance(original, BaseException) else None

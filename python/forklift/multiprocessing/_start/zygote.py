"""The fork server as its parent sees it: started on demand, watched, replaced.

There is one server for a process, the standard library's object ``multiprocessing.forkserver._forkserver``.
`ensure_running` has that object start Forklift's server (zygote_server) instead of its own. A server that the
standard library has started is used as it is.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import warnings
import weakref
from multiprocessing import forkserver as _std
from multiprocessing import util as _std_util

from forklift import child_boot
from forklift.multiprocessing._start.zygote_command import STANDARD, start_standard
from forklift.multiprocessing._start.zygote_plan import send_plan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["begin", "ensure_running", "error_for", "note_end", "tell"]

_SERVER = "forklift.multiprocessing._start.zygote_server"
_ATTEMPTS = 5
# Who starts processes for the program.
_CALLERS = (
    "multiprocessing.",
    "forklift.",
    "concurrent.futures",
    "torch.utils.data",
    "torch.multiprocessing",
)

_lock = threading.Lock()
_current: _Server | None = None
_left_out: dict[str, str] = {}
_retired: list[_Server] = []
_said: set[str] = set()


class _Server:
    """A server of ours, from its start on."""

    def __init__(self, pid: int, reports: int) -> None:
        self.pid = pid
        self.owner = os.getpid()
        self.is_ready = False
        self.failed_fork = 0
        self.unfit: dict[str, str] = {}
        self.importing: str | None = None
        self._files: list[tuple[str, int, int]] = []
        self._reports = reports
        self._rest = b""
        self._notes: list[str] = []
        # The processes that it has started, until their ends have been seen here.
        self.children: weakref.WeakSet[Any] = weakref.WeakSet()
        # What keeps the server running, once it is not the one that starts processes.
        self.alive_fd: int | None = None
        os.set_blocking(reports, False)

    def wait(self) -> None:
        """Wait until the server is ready or has ended."""
        import select

        poll = select.poll()
        poll.register(self._reports, select.POLLIN)
        while self.read() and not self.is_ready:
            poll.poll()

    def read(self) -> bool:
        """Take in what has been reported. False: the server has closed its end."""
        while True:
            try:
                data = os.read(self._reports, 1 << 16)
            except BlockingIOError:
                return True
            if not data:
                return False
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                self._take(line)

    def _take(self, line: bytes) -> None:
        import json

        record = json.loads(line)
        if "importing" in record:
            self.importing = record["importing"]
        elif "failed" in record:
            self._notes.append(f"{record['failed']!r} is not preloaded: {record['why']}")
        elif "unfit" in record:
            self.unfit = record["unfit"]
        elif "ready" in record:
            self.is_ready, self.importing = True, None
            self._files = record["ready"]
        elif "fresh" in record:
            self._notes.append(
                f"children are started as fresh interpreters, which import everything themselves, since a "
                f"forked one might hang: the server has {record['fresh']}"
            )
        elif "errno" in record:
            self.failed_fork = record["errno"]

    def read_notes(self) -> list[str]:
        """What has been reported since the last call, as sentences for the program's user."""
        self.read()
        notes, self._notes = self._notes, []
        return notes

    def has_changed_files(self) -> bool:
        for path, time, size in self._files:
            try:
                status = os.stat(path)
            except OSError:
                return True
            if (status.st_mtime_ns, status.st_size) != (time, size):
                return True
        return False

    def close(self) -> None:
        os.close(self._reports)


def begin() -> None:
    """Start a server if none is ready, and do not wait for it: ensure_running() does, which follows.

    The interpreter of the server starts while this process prepares what it will ask for.
    """
    with _lock:
        _forget_the_parents()
        server: Any = _std._forkserver
        if server._forkserver_pid is None:
            _start(server, preloads=True)


def ensure_running(popen: Any) -> None:
    """Have a server running that has imported what its children need, as it is on disk now.

    It returns when the server is ready to start the process of `popen`. The server goes on at least until
    note_end(). ForkServerWarning tells what could not be imported beforehand. If a filter makes it an
    exception, no process has been started.
    """
    with _lock:
        _forget_the_parents()
        _bury()
        notes = _run_server(_std._forkserver)
    _warn(notes)
    with _lock:
        if _current is not None:
            _current.children.add(popen)
            popen._forklift_server = _current


def _run_server(server: Any) -> list[str]:
    known = _ours(server)
    if known is not None and known.is_ready and known.has_changed_files():
        _std_util.info("forklift: a preloaded module has changed on disk: a new fork server")
        _left_out.clear()
        _retire(server)
    notes: list[str] = []
    for attempt in range(_ATTEMPTS + 1):
        _start(server, preloads=attempt < _ATTEMPTS)
        ours = _ours(server)
        if ours is None:
            return notes
        if not ours.is_ready:
            ours.wait()
        notes += ours.read_notes()
        if ours.is_ready:
            return notes
        notes += _learn_from(ours, server)
    return notes


def _ours(server: Any) -> _Server | None:
    """The server that runs, if it is ours and not the standard library's."""
    return _current if _current is not None and _current.pid == server._forkserver_pid else None


def _learn_from(ended: _Server, server: Any) -> list[str]:
    """Note what the next server must not import. The notes say why."""
    status = _take_away(server)
    unfit = ended.unfit
    if not unfit:
        how = f"signal {-status}" if status < 0 else f"exit code {status}"
        if ended.importing is None:
            _std_util.info("forklift: the fork server ended with %s", how)
            return []
        unfit = {ended.importing: f"its import ended the fork server ({how})"}
    _left_out.update(unfit)
    return [f"{name!r} is not preloaded, so each child imports it: {why}" for name, why in unfit.items()]


def _take_away(server: Any) -> int:
    """Wait for a server that has ended, or is about to, and forget it."""
    with server._lock:
        pid = server._forkserver_pid
        os.close(server._forkserver_alive_fd)
        server._forkserver_alive_fd = server._forkserver_pid = None
        _forget_address(server)
    try:
        _, status = os.waitpid(pid, 0)
    except ChildProcessError:
        return 0
    return os.waitstatus_to_exitcode(status)


def _retire(server: Any) -> None:
    """Have the next process started by another server. The old one goes on until its last child has ended.

    It must see the ends of its children: a server that nobody needs ends without reporting exit codes.
    """
    global _current
    old = _current
    assert old is not None
    with server._lock:
        old.alive_fd = server._forkserver_alive_fd
        server._forkserver_alive_fd = server._forkserver_pid = None
        _forget_address(server)
    _retired.append(old)
    _current = None
    _bury()


def _bury() -> None:
    """Let the retired servers end that have no children, and wait for those that have ended."""
    for old in list(_retired):
        if old.alive_fd is not None and not old.children:
            os.close(old.alive_fd)
            old.alive_fd = None
        if old.alive_fd is None:
            try:
                ended, _ = os.waitpid(old.pid, os.WNOHANG)
            except ChildProcessError:
                ended = old.pid
            if ended:
                _retired.remove(old)
                old.close()


def note_end(popen: Any) -> None:
    """The process has ended, and that has been seen; or it was not started."""
    server = popen.__dict__.pop("_forklift_server", None)
    if server is not None:
        server.children.discard(popen)
        if _retired:
            with _lock:
                _bury()


def _forget_address(server: Any) -> None:
    address, server._forkserver_address = server._forkserver_address, None
    if address is not None and not _std_util.is_abstract_socket_namespace(address):
        try:
            os.unlink(address)
        except OSError:
            pass


def _forget_the_parents() -> None:
    """In a forked child: the server belongs to the parent, which alone can see whether it runs."""
    global _current
    if _current is None or _current.owner == os.getpid():
        return
    server: Any = _std._forkserver
    if server._forkserver_pid == _current.pid:
        os.close(server._forkserver_alive_fd)
        server._forkserver_alive_fd = server._forkserver_pid = server._forkserver_address = None
    _current.close()
    _current = None
    for old in _retired:
        old.close()
        if old.alive_fd is not None:
            os.close(old.alive_fd)
    _retired.clear()


def _start(server: Any, preloads: bool) -> None:
    """Have the standard library start a server if none runs, and put our program in the place of its own."""

    def start_ours(start: Any, path: Any, args: Any, passfds: Any) -> int:
        return _start_ours(start, path, args, passfds, preloads)

    start_standard(server, start_ours)


def _start_ours(start: Any, path: Any, args: Any, passfds: Any, preloads: bool) -> int:
    global _current
    if _current is not None:
        _current.close()
        _current = None
    reports, writer = os.pipe()
    plans, reader = socket.socketpair()
    try:
        *options, code = args
        code = (
            f"{child_boot.find_package()}from {_SERVER} import main; "
            f"main({writer}, {reader.fileno()}, {code.removeprefix(STANDARD)}"
        )
        pid: int = start(path, [*options, code], [*passfds, writer, reader.fileno()])
    except BaseException:
        os.close(reports)
        plans.close()
        raise
    finally:
        os.close(writer)
        reader.close()
    _current = _Server(pid, reports)
    try:
        send_plan(plans, _left_out, preloads)
    except BaseException:
        _current.close()
        _current = None
        os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(pid, 0)
        except ChildProcessError:  # the program ignores SIGCHLD
            pass
        raise
    return pid


def tell() -> None:
    """Warn of what the server has reported since it was ready."""
    with _lock:
        notes = [] if _current is None else _current.read_notes()
    _warn(notes)


def error_for(error: Exception) -> Exception:
    """What to raise when the server ended, or refused, while it was asked for a process."""
    with _lock:
        server = _current
        if server is None:
            return error
        server.read()
        number, server.failed_fork = server.failed_fork, 0
    if number:
        return OSError(number, f"{os.strerror(number)} (in the fork server, process {server.pid})")
    return EOFError(f"the fork server (process {server.pid}) ended while it started a process")


def _renew_lock() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


def _warn(notes: list[str]) -> None:
    if not notes:
        return
    from forklift.errors import ForkServerWarning

    for note in notes:
        if note not in _said:
            _said.add(note)
            warnings.warn(f"forkserver: {note}", ForkServerWarning, stacklevel=_level())


def _level() -> int:
    """The stack level of the program's own call."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None:
        name = frame.f_globals.get("__name__", "")
        if not name.startswith(_CALLERS):
            break
        level, frame = level + 1, frame.f_back
    return level

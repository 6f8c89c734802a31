"""The fork server's process: it imports modules once, and forks a child for each request.

The loop, the requests and the answers are the standard library's (``multiprocessing.forkserver``). This
module adds what surrounds them: which modules are imported beforehand, what is reported about it, and the
check before each fork. A fork copies the calling thread only. If another thread would be missed, the child is
started as a fresh interpreter, which gets the same descriptors and the same data.

It reports to the process that started it (forklift.multiprocessing._start.zygote), one JSON object a line:

    {"importing": NAME}              before each import, so that a crash has a name
    {"failed": NAME, "why": TEXT}    the import raised an exception
    {"unfit": {NAME: TEXT}}          these modules must not be imported before a fork; the server ends
    {"ready": [[PATH, NS, SIZE]]}    with the files of the program's own modules
    {"fresh": TEXT}                  why children are fresh interpreters from now on
    {"errno": NUMBER}                a fork failed
"""

from __future__ import annotations

import atexit
import errno
import json
import os
import signal
import sys
from multiprocessing import forkserver as _std
from multiprocessing import process as _std_process
from multiprocessing import reduction as _std_reduction
from multiprocessing import spawn as _std_spawn
from multiprocessing import util as _std_util

from forklift import child_boot, fresh_child
from forklift.multiprocessing._start import threads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["main", "serve_fresh"]

_MAKES_DOMAIN = "its import makes locks, queues or arrays of Forklift's, which all children would share"
_CUDA = "its import initialises CUDA, which does not work in a forked child"


def main(
    reports: int, plans: int, listener: int, alive: int, preload: list[str], *_: Any, **named: Any
) -> None:
    """Run the fork server, in the place of the standard library's function of this name.

    `reports`: the descriptor for reports. `plans`: that of a JSON object: "own", modules of Forklift's;
    "later", those that are imported before the second fork; "main", modules that the main module imports;
    "left_out", modules that must not be imported; "main_path", the main module's file, or None; "sys_path"
    and "sys_argv" of the program.
    The other arguments are the standard library's. Those that concern the import of the main module itself
    are not used: it is never run here.
    """
    report = _Report(reports)
    child_boot.end_with_parent(alive)  # a server that imports does not see that nobody needs it any more
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    with open(plans, "rb") as file:
        text = file.read()
    if not text:
        os._exit(1)  # the parent could not make a plan, and says why
    plan = json.loads(text)
    _preload(report, plan, preload)
    _compile_main(plan["main_path"])
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, before)
    child_boot.outlive_parent()
    _flush()  # or each child would write the same text again
    named.pop("main_path", None)
    named.pop("sys_path", None)
    forks = _Forks(report, before is signal.SIG_IGN, plan["later"])
    forks.install()
    child_boot.freeze()
    report.write(ready=_own_files())
    report.stop_waiting()
    code = 1
    try:
        _std.main(listener, alive, [], **named)
    except SystemExit:
        code = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    # Neither wait for threads that imported modules have started, nor free memory object by object.
    atexit._run_exitfuncs()
    _flush()
    os._exit(code)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            pass


class _Report:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        os.set_inheritable(descriptor, False)

    def write(self, **record: Any) -> None:
        data = json.dumps(record).encode() + b"\n"
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError:
            pass  # nobody reads

    def stop_waiting(self) -> None:
        """From now on, drop what the pipe has no room for: a parent reads when it starts a process."""
        os.set_blocking(self._descriptor, False)

    def close(self) -> None:
        os.close(self._descriptor)


# --- before the first fork


def _preload(report: _Report, plan: dict[str, Any], named: list[str]) -> None:
    sys.argv[:] = plan["sys_argv"]
    sys.path[:] = plan["sys_path"]
    left_out = plan["left_out"]
    # Allocations of imports stay, so the garbage collector finds nothing among them.
    child_boot._collect_less()
    watch = _Watch()
    wanted = dict.fromkeys(each for each in (*plan["own"], *named) if each != "__main__")
    for name in wanted:
        if name not in left_out:
            _import(report, name)
            watch.look(name, checks_domain=False)
    # As in a child that imports its main module, a module that starts a process now gets an error.
    current: Any = _std_process.current_process()
    current._inheriting = True
    try:
        for name in plan["main"]:
            if name not in left_out and name not in wanted:
                _import(report, name)
                watch.look(name, checks_domain=True)
    finally:
        del current._inheriting
    child_boot._collect_as_before()
    unfit = watch.unfit()
    if unfit:
        report.write(unfit=unfit)
        os._exit(0)  # the next server leaves these modules out


def _compile_main(path: str | None) -> None:
    """Have children run the main module's code without compiling it, unless the file changes.

    A script has no compiled file beside it, and a thousand lines take ten milliseconds. Nor do they ask
    `runpy`, which imports `pkgutil` and with it `typing` to find out whether the file is a script.
    """
    if path is None:
        return
    try:
        stamp = _stamp(path)
        code = fresh_child.compile_script(path)
    except Exception:
        return  # the child gets the error
    if code is None:
        return
    import runpy

    module: Any = runpy
    run = module.run_path

    def run_path(path_name: Any, init_globals: Any = None, run_name: Any = None) -> Any:
        if (path_name, init_globals, run_name) == (path, None, "__mp_main__") and _stamp(path) == stamp:
            return fresh_child.run_code(code, path)
        return run(path_name, init_globals, run_name)

    module.run_path = run_path


def _stamp(path: str) -> tuple[int, int, int]:
    status = os.stat(path)
    return (status.st_mtime_ns, status.st_size, status.st_ino)


def _import(report: _Report, name: str) -> None:
    if name in sys.modules:
        return
    report.write(importing=name)
    try:
        __import__(name)
    except BaseException as error:  # SystemExit, too: a module must not end the server
        report.write(failed=name, why=_describe(error))


def _describe(error: BaseException) -> str:
    """The exception in one line, with the last place in a file that is not the import system's."""
    where = ""
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if trace.tb_frame.f_globals.get("__name__") != __name__ and not code.co_filename.startswith("<"):
            where = f" ({code.co_filename}, line {trace.tb_lineno})"
        trace = trace.tb_next
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}{where}"


class _Watch:
    """Notes which import has started a thread, made a domain or initialised CUDA."""

    def __init__(self) -> None:
        self._began: dict[int, str] = dict.fromkeys(threads.others(), "")
        self._unfit: dict[str, str] = {}
        self._has_domain = _has_domain()
        self._has_cuda = False

    def look(self, name: str, *, checks_domain: bool) -> None:
        for task in threads.others():
            self._began.setdefault(task, name)
        # Modules that the program names are meant to share what they make; those that the main module imports
        # would make a lock of its own in each child.
        if not self._has_domain and _has_domain():
            self._has_domain = True
            if checks_domain:
                self._unfit[name] = _MAKES_DOMAIN
        if threads.has_cuda() and not self._has_cuda:
            self._has_cuda = True
            self._unfit[name] = _CUDA

    def unfit(self) -> dict[str, str]:
        """The modules that must not be imported before a fork, each with the reason."""
        missed = threads.missed_by_forks()
        for task in missed:
            name = self._began.get(task, "")
            if name:
                text = f"it starts a thread that a forked child would not have: {threads.describe(task)}"
                self._unfit.setdefault(name, text)
        return self._unfit


def _has_domain() -> bool:
    core: Any = sys.modules.get("forklift._core")
    return core is not None and bool(core.has_domain())


_LIBRARY_FOLDERS = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


def _is_installed(path: str, shipped: tuple[str, ...]) -> bool:
    return path.startswith(shipped) or any(each in path for each in _LIBRARY_FOLDERS)


def _own_files() -> list[tuple[str, int, int]]:
    """The files of the modules that may be edited while the program runs: (path, time in ns, size).

    They are those of no installed package and not of the standard library.
    """
    shipped = tuple(
        os.path.dirname(os.path.realpath(each)) + os.sep for each in (os.__file__, child_boot.__file__)
    )
    found = {}
    for module in list(sys.modules.values()):
        path = getattr(getattr(module, "__loader__", None), "archive", None) or getattr(
            module, "__file__", None
        )
        if not isinstance(path, str) or path in found or _is_installed(path, shipped):
            continue
        if _is_installed(os.path.realpath(path), shipped):
            continue
        try:
            status = os.stat(path)
        except OSError:
            continue
        found[path] = (path, status.st_mtime_ns, status.st_size)
    return list(found.values())


# --- at each fork


class _Forks:
    """Replaces ``os.fork`` for the standard library's loop."""

    def __init__(self, report: _Report, ignores_interrupts: bool, later: list[str]) -> None:
        self._report = report
        self._later = later
        self._has_forked = False
        self._ignores_interrupts = ignores_interrupts
        self._fork = os.fork
        self._receive = _std_reduction.recvfds
        self._descriptors: list[int] = []
        self._said: set[str] = set()

    def install(self) -> None:
        os.fork = self.fork
        _std_reduction.recvfds = self.receive

    def _restore(self) -> None:
        os.fork = self._fork
        _std_reduction.recvfds = self._receive

    def receive(self, sock: Any, size: int) -> list[int]:
        """The descriptors of a request: the pipe of the data, that of the answer, and those for the child."""
        self._descriptors = list(self._receive(sock, size))
        return self._descriptors

    def fork(self) -> int:
        """Fork, or start a fresh interpreter if a thread would be missed. The loop waits for either."""
        self._import_later()
        try:
            why = threads.why_not_to_fork()
            if why is not None:
                if why not in self._said:
                    self._said.add(why)
                    self._report.write(fresh=why)
                return self._start_fresh()
            pid = self._fork()
        except OSError as error:
            self._refuse(error)
        if pid == 0:
            self._restore()
            self._report.close()
            _seed_anew()
        return pid

    def _import_later(self) -> None:
        """At the second request: the first child shall not wait for what it may not use."""
        if self._later and self._has_forked:
            for name in self._later:
                _import(self._report, name)
            self._later.clear()
            child_boot.freeze()
        self._has_forked = True

    def _refuse(self, error: OSError) -> None:
        """Answer a request that fails: the loop goes on after this error, and closes nothing."""
        self._report.write(errno=error.errno or errno.EAGAIN)
        for descriptor in self._descriptors:
            os.close(descriptor)
        raise OSError(errno.ECONNABORTED, os.strerror(errno.ECONNABORTED))

    def _start_fresh(self) -> int:
        source, _, *others = self._descriptors
        code = (
            f"{child_boot.find_package()}from {__name__} import serve_fresh; "
            f"serve_fresh({source}, {others}, {self._ignores_interrupts})"
        )
        util: Any = _std_util
        executable = _std_spawn.get_executable()
        arguments = [executable, *util._args_from_interpreter_flags(), "-c", code]
        return int(util.spawnv_passfds(executable, arguments, [source, *others]))


def serve_fresh(source: int, descriptors: list[int], ignores_interrupts: bool) -> None:
    """In a fresh interpreter: be the child that the server did not fork."""
    if not ignores_interrupts:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # the server ignores it, so the child does
    for descriptor in (source, *descriptors):
        os.set_inheritable(descriptor, False)
    server: Any = _std
    sys.exit(server._serve_one(source, descriptors, [], {}))


def _seed_anew() -> None:
    """Give NumPy's global generator a new state, as an import in this process would have done.

    The standard library's `random` does so itself. A generator that a module has seeded keeps its state.
    """
    module: Any = sys.modules.get("numpy.random.mtrand")
    state = getattr(module, "_rand", None)
    generator = getattr(state, "_bit_generator", None)
    seeds = getattr(generator, "seed_seq", None) or getattr(generator, "_seed_seq", None)
    if state is not None and seeds is not None:
        state.seed()

"""The command ``forklift``, or ``python -m forklift``, which runs an unchanged program on Forklift.

    python -m forklift train.py --epochs 3       # a file, a folder or an archive with a __main__
    python -m forklift -m package.module ...
    python -m forklift -c "import multiprocessing; ..."
    python -m forklift --cmake-dir               # prints the folder of the C++ library's CMake package
    python -m forklift --report train.py         # says at the end what was sent (forklift.cli.report)
    python -m forklift fork-report train.py      # says before each fork what it meets (forklift.cli.forks)
    python -m forklift reap                      # removes named segments without an owner (forklift.cli.reap)
    python -m forklift doctor                    # examines machine and installation (forklift.cli.doctor)
    python -m forklift why 4711                  # says why a program stands still (forklift.cli.why)
    python -m forklift top 4711                  # shows its queues, pools and memory (forklift.cli.top)
    python -m forklift trace train.py            # records what it does over time (forklift.cli.trace)
    python -m forklift --version

The program and its children, of every start method, find Forklift's classes in ``multiprocessing``; see
``forklift.install``. ``sys.argv``, ``sys.path`` and ``__main__`` are what they would be without it.
"""

from __future__ import annotations

import importlib.machinery
import io
import os
import pkgutil
import runpy
import sys
import types
from typing import Any

from forklift.cli.cmake import get_cmake_dir
from forklift.patch import install_for_children

_USAGE = (
    "usage: python -m forklift [--report | fork-report] [-m MODULE | -c CODE | SCRIPT] [ARGUMENT ...]"
    " | reap | doctor | why | top | trace | --cmake-dir"
)
_HELP = f"""{_USAGE}

Runs an unmodified program in which `multiprocessing` is Forklift's, in all its processes.

  SCRIPT [ARGUMENT ...]      a file, a folder or an archive with a __main__, or - (standard input)
  -m MODULE [ARGUMENT ...]   a module, as python -m runs it
  -c CODE [ARGUMENT ...]     code
  --report                   before these: say at the end what travelled between the processes
  fork-report                before these: say before each fork, and at the end, what a child would meet
  reap [--look]              removes (or shows) named shared memory of which no owner lives
  doctor [--json] [--quick]  examines the machine and the installation, and says what to do
  why [PID | NAME] [--watch] [--json]
                             what a program's processes wait for, and why it stands still
  top [PID | NAME] ...       its processes, queues, pools, locks and memory, in numbers
  trace ...                  records what a program does over time, for Perfetto or as a page
  --cmake-dir                where the C++ library's CMake package lies
  --version                  the version of Forklift
  -h, --help                 this text

The command `forklift` is the same as `python -m forklift`."""


def main(arguments: list[str]) -> None:
    """Run what the arguments name. What the program raises, SystemExit included, passes through."""
    reporting = arguments[:1] == ["--report"]
    arguments = arguments[reporting:]
    if arguments[:1] in (["-h"], ["--help"]):
        print(_HELP)
        return
    if not arguments:
        print(_USAGE, file=sys.stderr)
        raise SystemExit(2)
    if arguments == ["--version"]:
        from forklift._core import __version__

        print(f"forklift {__version__}")
        return
    if arguments == ["--cmake-dir"]:
        print(get_cmake_dir())
        return
    reporting_forks = arguments[0] == "fork-report" and not os.path.exists("fork-report")
    arguments = arguments[reporting_forks:]
    if not arguments:
        raise SystemExit(f"fork-report needs a program\n{_USAGE}")
    if arguments[0] == "reap" and not os.path.exists("reap"):
        from forklift.cli import reap

        raise SystemExit(reap.main(arguments[1:]))
    if arguments[0] == "doctor" and not os.path.exists("doctor"):
        from forklift.cli.doctor.command import main as examine

        raise SystemExit(examine(arguments[1:]))
    if arguments[0] == "why" and not os.path.exists("why"):
        from forklift.cli import why

        raise SystemExit(why.main(arguments[1:]))
    if arguments[0] == "top" and not os.path.exists("top"):
        from forklift.cli.top.command import main as show

        raise SystemExit(show(arguments[1:]))
    if arguments[0] == "trace" and not os.path.exists("trace"):
        from forklift.cli.trace.command import main as record

        raise SystemExit(record(arguments[1:]))
    if arguments[0] == "--announce-to":
        from forklift.cli.trace.command import announce

        announce(int(arguments[1]))
        arguments = arguments[2:]
    how, rest = arguments[0], arguments[1:]
    if how in ("-m", "-c"):
        if not rest:
            raise SystemExit(f"argument expected for the {how} option\n{_USAGE}")
        what, rest = rest[0], rest[1:]
    elif how.startswith("-") and how != "-":
        raise SystemExit(f"unknown option: {how}\n{_USAGE}")
    install_for_children()
    if reporting or "FORKLIFT_REPORT" in os.environ:
        from forklift.cli import report

        # The variable is set if a program that runs under --report has started this command.
        report.begin() if reporting else report.follow()
    if reporting_forks:
        from forklift.cli import forks

        forks.begin()
    try:
        _run(how, what if how in ("-m", "-c") else how, rest)
    except SystemExit:
        raise
    except BaseException as error:
        _show_without_own_frames(error)
        raise


def _run(how: str, what: str, rest: list[str]) -> None:
    sys.argv[:] = [how, *rest]
    if how == "-m":
        _fresh_main()
        _run_module(what)
    elif how == "-c":
        _set_first_path("")
        exec(compile(what, "<string>", "exec"), _fresh_main().__dict__)
    else:
        _run_file(what)


def _show_without_own_frames(error: BaseException) -> None:
    """Show the exception that ends the program without this module's frames.

    The traceback begins with the program's first frame; the program's own sys.excepthook, if set, shows it.
    """
    hook = sys.excepthook
    first = trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == __file__:
            first = trace.tb_next
        trace = trace.tb_next

    def show(kind: Any, error: BaseException, _trace: Any) -> None:
        hook(kind, error.with_traceback(first), first)

    sys.excepthook = show


def _fresh_main() -> types.ModuleType:
    """Make a new ``__main__`` for the program, so that children import the program and not this command."""
    module = types.ModuleType("__main__")
    module.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = sys.modules["__mp_main__"] = module
    return module


def _run_module(name: str, alter_argv: bool = True) -> None:
    runpy._run_module_as_main(name, alter_argv)  # type: ignore[attr-defined]


def _has_first_path() -> bool:
    # With -I or -P Python puts no such entry in sys.path, neither for `-m forklift` nor for a script.
    return not getattr(sys.flags, "safe_path", False) and not sys.flags.isolated


def _set_first_path(folder: str) -> None:
    if _has_first_path():
        sys.path[0] = folder


def _run_file(path: str) -> None:
    importer = None if path == "-" else pkgutil.get_importer(path)
    if importer is not None:  # a folder or an archive
        if _has_first_path():
            sys.path[0] = os.path.abspath(path)
        else:
            sys.path.insert(0, os.path.abspath(path))
        _fresh_main()
        _run_module("__main__", alter_argv=False)
        return
    code = _code_of(path)
    module = _fresh_main()
    if path != "-":
        _set_first_path(os.path.dirname(os.path.realpath(path)))
        module.__file__ = os.path.abspath(path)
        loader: Any = importlib.machinery.SourceFileLoader
        module.__loader__ = loader("__main__", path)
    module.__dict__["__cached__"] = None
    exec(code, module.__dict__)


def _code_of(path: str) -> Any:
    if path == "-":
        return compile(sys.stdin.read(), "<stdin>", "exec")
    try:
        with io.open_code(os.path.abspath(path)) as file:
            code = pkgutil.read_code(file)
            if code is None:
                file.seek(0)
                code = compile(file.read(), os.path.abspath(path), "exec", dont_inherit=True)
            return code
    except OSError as error:
        why = f"can't open file {os.path.abspath(path)!r}: [Errno {error.errno}] {error.strerror}"
        raise SystemExit(f"{sys.executable}: {why}") from None


def command() -> None:
    """Run the ``forklift`` command: as ``python -m forklift``, with the current folder first in sys.path."""
    if _has_first_path():
        sys.path[0] = os.getcwd()
    main(sys.argv[1:])

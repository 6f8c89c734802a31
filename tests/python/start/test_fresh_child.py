"""A spawned child imports little, and nobody can tell: what was not imported is there when asked for."""

from __future__ import annotations

import ast
import runpy
import subprocess
import sys
import threading
import zipfile
from pathlib import Path
from typing import Any

import forklift.multiprocessing
import fresh_targets
import pytest
import support
from forklift import fresh_child

spawn = forklift.multiprocessing.get_context("spawn")

# What the standard library's child imports besides, for its own start.
SPARED = {"socket", "subprocess", "pickle", "re", "typing", "pkgutil", "runpy", "selectors", "locale"}
LATER = {"connection", "reduction", "resource_tracker", "spawn"}


def _run(program: Path, *arguments: str) -> Any:
    done = subprocess.run(
        [sys.executable, str(program), *arguments], capture_output=True, text=True, timeout=support.DEADLINE
    )
    assert done.returncode == 0, done.stderr
    return ast.literal_eval(done.stdout.splitlines()[-1])


MAIN = """
import sys

def say():
    print(repr({code}), flush=True)

if __name__ == "__main__":
    import importlib
    child = importlib.import_module(sys.argv[1]).get_context("spawn").Process(target=say)
    child.start()
    child.join()
    sys.exit(child.exitcode)
"""


def _say(folder: Path, code: str, module: str = "forklift.multiprocessing") -> Any:
    program = folder / "program.py"
    program.write_text(MAIN.replace("{code}", code))
    return _run(program, module)


def test_a_child_that_does_nothing_imports_little(tmp_path: Path) -> None:
    loaded = set(_say(tmp_path, "sorted(sys.modules)"))
    assert not loaded & SPARED
    assert {f"multiprocessing.{name}" for name in LATER} <= loaded
    imported = SPARED - ({"locale", "typing"} if sys.version_info < (3, 11) else set())
    assert set(_say(tmp_path, "sorted(sys.modules)", "multiprocessing")) >= imported


# What the main module and its function see. Each is evaluated in a child of either library.
SEEN = (
    "sys.argv[2:]",
    "[__name__, __file__, __package__, repr(__spec__), repr(__loader__), repr(__cached__), __doc__]",
    "sys.modules['__main__'] is sys.modules['__mp_main__']",
    "sys.modules['__main__'].say.__globals__ is sys.modules['__main__'].__dict__",
    "sys.modules['__main__'].__dict__.keys() == say.__globals__.keys()",
    "[sys.path, sys.meta_path.__len__(), len(sys.path_hooks)]",
    "__import__('multiprocessing').get_start_method()",
    "[getattr(__import__('multiprocessing').process, 'ORIGINAL_DIR'), __import__('os').getcwd()]",
    "hasattr(__import__('multiprocessing').current_process(), '_inheriting')",
    "__import__('multiprocessing').spawn.get_executable()",
    "len(__import__('multiprocessing.spawn').spawn.old_main_modules)",
    "__import__('multiprocessing').resource_tracker._resource_tracker._fd is not None",
    "__import__('multiprocessing').util._args_from_interpreter_flags()",
    "__import__('subprocess').PIPE",
    "sorted(__import__('multiprocessing').reduction.__all__)",
    "dir(__import__('multiprocessing').reduction)",
    "__import__('multiprocessing').reducer is __import__('multiprocessing.reduction').reduction",
    "str(type(__import__('multiprocessing.reduction').reduction.pickle))",
    "__import__('multiprocessing.spawn').spawn.__spec__.origin",
    "str(__import__('multiprocessing.connection').connection.__loader__.name)",
    "sorted([getattr(m, '__file__', 0), hasattr(m, '__path__'), m.__spec__.name]"
    " for m in sys.modules.values() if m.__name__ in ('multiprocessing.spawn', 'multiprocessing.reduction'))",
    "__import__('gc').get_threshold()",
    "[__import__('gc').isenabled(), __import__('gc').get_freeze_count()]",
    "sys.stdin.read()",
)


@pytest.mark.parametrize("code", SEEN)
def test_what_a_child_sees_is_the_standard_librarys(code: str, tmp_path: Path) -> None:
    assert _say(tmp_path, code) == _say(tmp_path, code, "multiprocessing")


def test_a_module_that_is_asked_becomes_an_ordinary_one(tmp_path: Path) -> None:
    module = "sys.modules['multiprocessing.reduction']"
    code = f"[type({module}).__name__, callable({module}.ForkingPickler), type({module}).__name__]"
    assert _say(tmp_path, code) == ["_Later", True, "module"]


@pytest.mark.parametrize("name", ["spawn", "resource_tracker", "reduction", "connection"])
def test_threads_that_ask_at_once_see_the_whole_module(name: str) -> None:
    assert _answer(fresh_targets.ask_from_threads, name) == [True] * fresh_targets.THREADS


def test_a_grandchild_of_each_kind() -> None:
    assert _answer(fresh_targets.start_grandchildren, ["spawn", "forkserver", "fork"]) == [0, 0, 0]


def test_shared_memory_of_the_standard_library_is_tracked() -> None:
    assert _answer(fresh_targets.share_memory, 100) == 100


def test_a_failing_main_module_is_reported(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(MAIN.replace("{code}", "0") + "\nif __name__ == '__mp_main__':\n    1 / 0\n")
    done = subprocess.run(
        [sys.executable, str(program), "forklift.multiprocessing"],
        capture_output=True,
        text=True,
        timeout=support.DEADLINE,
    )
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr
    assert f'File "{program}", line' in done.stderr


def test_arguments_larger_than_a_pipe() -> None:
    data = bytes(range(256)) * 3000
    assert _answer(fresh_targets.length_of, data) == len(data)


def _script(folder: Path) -> Path:
    script = folder / "script.py"
    script.write_text(
        '"""Text."""\nimport sys\nseen = sys.argv[0], sys.modules[__name__].__dict__ is globals()\n'
    )
    return script


def _compiled(folder: Path) -> Path:
    import py_compile

    compiled = folder / "compiled.pyc"
    py_compile.compile(str(_script(folder)), str(compiled))
    return compiled


def _folder(folder: Path) -> Path:
    _script(folder).rename(folder / "__main__.py")
    return folder


def _archive(folder: Path) -> Path:
    archive = folder / "program.pyz"
    with zipfile.ZipFile(archive, "w") as file:
        file.write(_script(folder), "__main__.py")
    return archive


@pytest.mark.parametrize("make", [_script, _compiled, _folder, _archive])
def test_main_modules_run_as_runpy_runs_them(make: Any, tmp_path: Path) -> None:
    path = str(make(tmp_path))
    ours, theirs = fresh_child.run_script(path), runpy.run_path(path, run_name="__mp_main__")
    assert ours.keys() == theirs.keys()
    for name in ("__name__", "__file__", "__doc__", "__package__", "seen"):
        assert ours[name] == theirs[name]


def test_a_missing_main_module_is_runpys_error() -> None:
    with pytest.raises(FileNotFoundError):
        fresh_child.run_script("/nowhere/at/all.py")


def _answer(target: Any, *args: Any) -> Any:
    queue = spawn.SimpleQueue()
    child = spawn.Process(target=target, args=(queue, *args))
    child.start()
    timer = threading.Timer(support.DEADLINE, child.kill)
    timer.start()
    child.join()
    timer.cancel()
    assert child.exitcode == 0
    return queue.get()

"""``forklift.install()`` and ``python -m forklift``: unmodified programs, in interpreters of their own."""

from __future__ import annotations

import json
import zipapp
from pathlib import Path

import pytest
from plain_programs import FORKLIFT, PROGRAM, WHO_AM_I, answer, python, write

METHODS = ("fork", "spawn", "forkserver")


@pytest.mark.parametrize("method", METHODS)
def test_an_unmodified_program_gives_equal_results(method: str, tmp_path: Path) -> None:
    script = write(tmp_path / "program.py", PROGRAM)
    standard = answer(script, method, cwd=tmp_path)
    ours = answer(*FORKLIFT, script, method, cwd=tmp_path)
    assert standard.pop("seen") == ["multiprocessing.queues"] * 3 + [True]
    # The class itself, one that the parent made, one that the child made.
    assert ours.pop("seen") == ["forklift.multiprocessing.queues"] * 3 + [True]
    assert ours == standard


@pytest.mark.parametrize("flags", [["-I"], ["-E"], ["-O", "-X", "dev"]])
def test_interpreter_flags_reach_the_children(flags: list[str], tmp_path: Path) -> None:
    script = write(tmp_path / "program.py", PROGRAM)
    done = python(*flags, *FORKLIFT, script, "spawn", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["seen"][0] == "forklift.multiprocessing.queues"


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_modules_and_archives_have_children_too(method: str, tmp_path: Path) -> None:
    write(tmp_path / "package" / "__init__.py", "")
    write(tmp_path / "package" / "program.py", PROGRAM)
    write(
        tmp_path / "folder" / "__main__.py",
        "import package.program as p; __name__ == '__main__' and p.main()",
    )
    zipapp.create_archive(tmp_path / "folder", tmp_path / "archive.pyz")
    assert answer(*FORKLIFT, "-m", "package.program", method, cwd=tmp_path)["seen"][3]
    code = "import package.program as p; p.main()"
    assert answer(*FORKLIFT, "-c", code, method, cwd=tmp_path)["seen"][3]


def test_main_is_what_it_would_be(tmp_path: Path) -> None:
    write(tmp_path / "here" / "script.py", WHO_AM_I)
    write(tmp_path / "here" / "package" / "__init__.py", "")
    write(tmp_path / "here" / "package" / "module.py", WHO_AM_I)
    write(tmp_path / "here" / "package" / "__main__.py", WHO_AM_I)
    write(tmp_path / "folder" / "__main__.py", WHO_AM_I)
    zipapp.create_archive(tmp_path / "folder", tmp_path / "archive.pyz")
    ways: list[list[str]] = [
        ["here/script.py"],
        ["here/script.py", "-m", "x", "-c", "--", "y"],
        [str(tmp_path / "here" / "script.py"), "1"],
        ["folder", "1"],
        ["archive.pyz", "1"],
        ["-c", WHO_AM_I, "-m", "1"],
    ]
    for way in ways:
        assert answer(*FORKLIFT, *way, cwd=tmp_path) == answer(*way, cwd=tmp_path), way
    for way in (["-m", "package", "1"], ["-m", "package.module", "-c", "1"]):
        here = tmp_path / "here"
        assert answer(*FORKLIFT, *way, cwd=here) == answer(*way, cwd=here), way


def test_how_a_program_ends_is_how_it_ends(tmp_path: Path) -> None:
    for text, code, said in [
        ("import sys; sys.exit(3)", 3, ""),
        ("raise SystemExit('no more')", 1, "no more"),
        ("1 / 0", 1, "ZeroDivisionError: division by zero"),
        ("def f(:", 1, "SyntaxError"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", -15, ""),
    ]:
        script = write(tmp_path / "script.py", text)
        done = python(*FORKLIFT, script, cwd=tmp_path)
        assert done.returncode == code, done.stderr
        assert said in done.stderr
    assert python(*FORKLIFT, "-", cwd=tmp_path, input="print(6 * 7)").stdout == "42\n"


def test_bad_arguments(tmp_path: Path) -> None:
    assert "usage" in python(*FORKLIFT, "--help", cwd=tmp_path).stdout
    for arguments, code, said in [
        ([], 2, "usage"),
        (["-m"], 1, "argument expected for the -m option"),
        (["--nonsense", "x.py"], 1, "unknown option: --nonsense"),
        (["missing.py"], 1, "can't open file"),
        (["-m", "missing_module"], 1, "No module named missing_module"),
    ]:
        done = python(*FORKLIFT, *arguments, cwd=tmp_path)
        assert done.returncode == code
        assert said in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("method", METHODS)
def test_objects_that_were_made_before(method: str, tmp_path: Path) -> None:
    script = write(
        tmp_path / "script.py",
        """
        import sys
        import multiprocessing as mp
        from concurrent.futures import ProcessPoolExecutor
        from multiprocessing.queues import Queue as Early
        import multiprocessing.managers, multiprocessing.pool

        class Mine(Early):
            pass

        def child(lock, event, queue, pipe, mine, new):
            with lock:
                queue.put("queue")
            pipe.send("pipe")
            mine.put("mine")
            new.put("new")
            event.set()

        if __name__ == "__main__":
            mp.set_start_method(sys.argv[1])
            lock, event, queue, (receiver, sender) = mp.Lock(), mp.Event(), mp.Queue(), mp.Pipe(False)
            mine = Mine(ctx=mp.get_context())
            import forklift
            forklift.install()
            forklift.install()
            new = mp.Queue()
            process = mp.Process(target=child, args=(lock, event, queue, sender, mine, new))
            process.start()
            assert event.wait(60)
            got = [queue.get(), receiver.recv(), mine.get(), new.get()]
            process.join()
            assert got == ["queue", "pipe", "mine", "new"], got
            assert type(new).__module__ == "forklift.multiprocessing.queues"
            assert type(queue) is Early and type(queue) is not mp.queues.Queue
            with ProcessPoolExecutor(2) as executor:
                assert list(executor.map(abs, [-1, -2])) == [1, 2]
                assert isinstance(executor._call_queue, mp.queues.Queue)
            with mp.Manager() as manager, manager.Pool(1) as pool:
                assert pool.apply(abs, (-3,)) == 3
            print("done")
        """,
    )
    done = python(script, method, cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("done\n", "")


def test_installing_makes_nothing_and_imports_little(tmp_path: Path) -> None:
    code = """
import sys
import forklift
forklift.install()
assert not forklift._core.has_domain()
import multiprocessing
multiprocessing.Process
assert not {"multiprocessing.pool", "multiprocessing.managers", "numpy"} & set(sys.modules)
import multiprocessing.queues as queues
assert queues.Queue.__module__ == "forklift.multiprocessing.queues"
import forklift.multiprocessing
assert forklift.multiprocessing.queues.Queue is queues.Queue
"""
    done = python("-c", code, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("first", ["multiprocessing", "forklift.multiprocessing"])
def test_the_order_of_imports_does_not_matter(first: str, tmp_path: Path) -> None:
    names = ["connection", "heap", "pool", "popen_fork", "popen_forkserver", "popen_spawn_posix"]
    names += ["queues", "sharedctypes", "synchronize"]
    for before in range(0, len(names) + 1, 3):
        imports = [f"importlib.import_module('{first}.{name}')" for name in names]
        lines = ["import importlib, forklift", *imports[:before], "forklift.install()", *imports[before:]]
        lines += ["from forklift.patch import _REPLACED", "for name, (ours, what) in _REPLACED.items():"]
        lines.append("    std = importlib.import_module('multiprocessing.' + name)")
        lines.append("    our = importlib.import_module('forklift.multiprocessing.' + ours)")
        lines.append("    for each in what: assert getattr(std, each) is getattr(our, each), (name, each)")
        lines.append("    assert std.__spec__.loader.exec_module, name")
        done = python("-c", "\n".join(lines), cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, ""), before


def test_what_is_imported_in_passing_is_ours_when_it_is_asked_for(tmp_path: Path) -> None:
    """Pool, SharedMemory and the shared types: a program's children have their modules without using them."""
    program = """
import sys, types, forklift
forklift.install()
import multiprocessing.managers, multiprocessing.pool, multiprocessing.sharedctypes
from multiprocessing import dummy, shared_memory
from multiprocessing.pool import ThreadPool
def ours(): return {n.split(".")[2] for n in sys.modules if n.startswith("forklift.multiprocessing.")}
assert not ours() & {"heap", "pool", "pool_calls", "shared_memory", "sharedctypes"}, ours()
assert isinstance(multiprocessing.pool, types.ModuleType) and "Pool" in dir(multiprocessing.pool)
assert multiprocessing.pool.Pool.__module__ == "forklift.multiprocessing.pool"
assert "pool" in ours() and "shared_memory" not in ours()
assert type(multiprocessing.pool) is types.ModuleType
assert vars(multiprocessing.pool)["Pool"] is multiprocessing.pool.Pool
from multiprocessing.shared_memory import SharedMemory
assert SharedMemory.__module__ == "forklift.multiprocessing.shared_memory"
multiprocessing.sharedctypes.Value = 5  # as a test's monkeypatch does
assert multiprocessing.sharedctypes.Value == 5 and "sharedctypes" in ours()
del multiprocessing.sharedctypes.copy
assert not hasattr(multiprocessing.sharedctypes, "copy")
with dummy.Pool(2) as threads: assert threads.map(abs, [-1, -2]) == [1, 2]
with ThreadPool(2) as threads: assert threads.map(abs, [-1, -2]) == [1, 2]
"""
    done = python("-c", program, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_modules_whose_names_wait_can_be_pickled_and_subclassed(tmp_path: Path) -> None:
    pytest.importorskip("cloudpickle")
    program = """
import pickle, sys, cloudpickle, forklift
forklift.install()
import multiprocessing.pool, multiprocessing.sharedctypes
module = multiprocessing.pool
assert pickle.loads(cloudpickle.dumps(lambda: module))() is module
assert "forklift.multiprocessing.pool" not in sys.modules
class Mine(multiprocessing.pool.Pool): pass
assert "forklift.multiprocessing.pool" in sys.modules
with Mine(1) as pool: assert pool.apply(abs, (-3,)) == 3
"""
    done = python("-c", program, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("kind", ["str", "bytes"])
def test_an_interpreter_is_started_with_strings_or_bytes(kind: str, tmp_path: Path) -> None:
    """util.spawnv_passfds() takes both; loky encodes the command of its resource tracker."""
    program = f"""
import os, sys
from multiprocessing import util
def start(code):
    args = [sys.executable, "-E", "-c", code]
    if {kind!r} == "bytes":
        args = [os.fsencode(each) for each in args]
    pid = util.spawnv_passfds(os.fsencode(sys.executable), args, (1, 2))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
sys.stdout.flush()
start("import sys; print('forklift.patch' in sys.modules, flush=True)")
start("'resource_tracker'; import sys; print('forklift.patch' in sys.modules, flush=True)")
"""
    done = python(*FORKLIFT, "-c", program, cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("True\nFalse\n", "")


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_managers_pool_is_ours(method: str, tmp_path: Path) -> None:
    program = f"""
import sys, forklift
forklift.install()
import multiprocessing
def is_ours(): return "forklift.multiprocessing._pool.workers" in sys.modules
if __name__ == "__main__":
    with multiprocessing.get_context("{method}").Manager() as manager:
        pool = manager.Pool(1)
        assert pool.apply(is_ours)
        pool.terminate()
"""
    path = tmp_path / "main.py"
    path.write_text(program)
    done = python(str(path), cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")

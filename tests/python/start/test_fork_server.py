"""The fork server: what it imports beforehand, and what its children see of it."""

from __future__ import annotations

import zipfile
from typing import Any

import pytest
from fork_server_programs import MAIN, MARKER, NAMED, Program

# --- what is imported


def test_what_a_script_imports_is_imported_once(program: Program) -> None:
    assert program.main(MAIN) == (["True", "True"], "")
    assert program.imports() == 2  # the program's own and the server's


def test_other_start_methods_as_the_control(program: Program) -> None:
    assert program.main(MAIN.replace('"forkserver"', '"spawn"')) == (["False", "False"], "")
    assert program.imports() == 3


def test_python_m(program: Program) -> None:
    package = program.folder / "package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "marker.py").write_text(MARKER)
    (package / "program.py").write_text(MAIN.replace("import marker", "from . import marker"))
    assert program.run("-m", "package.program") == (["True", "True"], "")
    assert program.imports() == 2


@pytest.mark.parametrize("kind", ["folder", "archive"])
def test_a_folder_or_an_archive(program: Program, kind: str) -> None:
    marker, main = (program.folder / "marker.py"), program.write("main", MAIN)
    inside = program.folder / "application"
    inside.mkdir()
    main.rename(inside / "__main__.py")
    marker.rename(inside / "marker.py")
    if kind == "archive":
        with zipfile.ZipFile(program.folder / "application.zip", "w") as archive:
            for name in ("__main__.py", "marker.py"):
                archive.write(inside / name, name)
        inside = program.folder / "application.zip"
    assert program.run(inside) == (["True", "True"], "")
    assert program.imports() == 2


def test_code_without_a_file(program: Program) -> None:
    """Children run no main module then, but they unpickle what it has imported."""
    assert program.run("-c", MAIN) == (["True", "True"], "")
    assert program.imports() == 2


def test_a_program_from_stdin(program: Program) -> None:
    """Its main module is named as a file that is not there, so children fail, as ever."""
    for module in ("forklift.multiprocessing", "multiprocessing"):
        _, errors = program.run("-", stdin=MAIN.replace("forklift.multiprocessing", module), code=1)
        assert "FileNotFoundError" in errors
        assert "<stdin>" in errors


def test_python_m_forklift(program: Program) -> None:
    main = MAIN.replace("import forklift.multiprocessing as mp", "import multiprocessing as mp")
    assert program.run("-m", "forklift", program.write("program", main)) == (["True", "True"], "")
    assert program.imports() == 2


def test_the_main_module_runs_in_the_children_only(program: Program) -> None:
    """As on spawn: under the name __mp_main__, and its functions and classes are found by name."""
    source = """
    import os
    print(__name__, flush=True)
    import forklift.multiprocessing as mp

    class Thing:
        def __init__(self, value):
            self.value = value

    def show(thing):
        print(type(thing) is Thing, Thing.__module__, thing.value, flush=True)

    if __name__ == "__main__":
        context = mp.get_context("forkserver")
        for i in range(2):
            child = context.Process(target=show, args=(Thing(i),))
            child.start()
            child.join()
    """
    lines, errors = program.main(source)
    shown = ["__mp_main__", "True __mp_main__ 0", "__mp_main__", "True __mp_main__ 1"]
    assert (lines, errors) == (["__main__", *shown], "")


def test_guarded_imports_are_not_made(program: Program) -> None:
    source = """
    import sys
    import forklift.multiprocessing as mp
    if __name__ == "__main__":
        import marker

    def look():
        print("marker" in sys.modules, flush=True)

    if __name__ == "__main__":
        child = mp.get_context("forkserver").Process(target=look)
        child.start()
        child.join()
    """
    assert program.main(source) == (["False"], "")
    assert program.imports() == 1


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (["other"], "True True"),
        (["__main__", "other"], "True True"),
        (["marker"], "True False"),
        ([], "False False"),
    ],
)
def test_named_modules_are_imported_as_well(program: Program, names: list[str], shown: str) -> None:
    """The empty list says that nothing shall be imported."""
    program.write("other", "")
    assert program.main(NAMED.format(names=names)) == ([shown, shown], "")


def test_named_modules_come_first(program: Program) -> None:
    """One that sets something up for the others, say."""
    program.write("other", "import os; os.environ['SET_UP'] = '1'")
    program.write("second", "import os; VALUE = os.environ.get('SET_UP')")
    source = NAMED.format(names=["other"]).replace("import marker", "import marker, second")
    source = source.replace("marker.imported_by()", "second.VALUE")
    assert program.main(source) == (["1 True", "1 True"], "")


# --- state


def test_numpys_random_numbers_differ(program: Program) -> None:
    pytest.importorskip("numpy")
    program.write("seeded", "import numpy.random\n")
    source = """
    import numpy
    import forklift.multiprocessing as mp
    import seeded

    def draw():
        print(numpy.random.randint(1 << 30), flush=True)

    if __name__ == "__main__":
        for _ in range(3):
            child = mp.get_context("forkserver").Process(target=draw)
            child.start()
            child.join()
    """
    assert len(set(program.main(source)[0])) == 3
    program.write("seeded", "import numpy.random\nnumpy.random.seed(7)")
    assert len(set(program.main(source)[0])) == 1  # as when each child imports it


def test_text_that_an_import_prints_is_printed_once(program: Program) -> None:
    program.write("talking", "print('imported')")
    source = MAIN.replace("import marker", "import marker, talking")
    assert sorted(program.main(source)[0]) == ["True", "True", "imported", "imported"]


def test_arguments_and_folders_are_the_programs(program: Program) -> None:
    """At the import in the server, and in the child."""
    program.write("other", "import os, sys\nSEEN = (sys.argv[1:], os.getcwd())")
    source = """
    import os, sys
    import forklift.multiprocessing as mp
    import other

    def look():
        print(other.SEEN == (["--one"], START), os.getcwd() == "/", sys.argv[1:], end=" ")
        print(sys.path[0] == "/x", flush=True)

    START = os.path.dirname(os.path.abspath(__file__))
    if __name__ == "__main__":
        context = mp.get_context("forkserver")
        for _ in range(2):
            child = context.Process(target=look)
            child.start()
            child.join()
            os.chdir("/")
            sys.path.insert(0, "/x")
    """
    lines, errors = program.run(program.write("program", source), "--one")
    assert (lines, errors) == (["True False ['--one'] False", "True True ['--one'] True"], "")


def test_the_main_modules_code_has_no_future_statements_of_ours(program: Program) -> None:
    source = """
    import forklift.multiprocessing as mp

    def typed(number: int) -> None:
        print(typed.__annotations__, flush=True)

    if __name__ == "__main__":
        for method in ("forkserver", "spawn", "fork"):
            child = mp.get_context(method).Process(target=typed, args=(1,))
            child.start()
            child.join()
    """
    assert program.main(source) == (["{'number': <class 'int'>, 'return': None}"] * 3, "")


def test_an_argument_that_is_no_text(program: Program) -> None:
    added = "import marker, pathlib, sys\nsys.argv.append(pathlib.Path('/y'))"
    assert program.main(MAIN.replace("import marker", added)) == (["True", "True"], "")


def test_the_first_child_does_not_wait_for_what_it_may_not_use(program: Program) -> None:
    source = """
    import sys
    import forklift.multiprocessing as mp

    def look():
        print("forklift.multiprocessing.queues" in sys.modules, "typing" in sys.modules, flush=True)
        queue = mp.SimpleQueue()
        queue.put("used")
        assert queue.get() == "used"

    if __name__ == "__main__":
        for _ in range(3):
            child = mp.get_context("forkserver").Process(target=look)
            child.start()
            child.join()
            assert child.exitcode == 0
        mp.get_context("forkserver").Queue()
    """
    assert program.main(source) == (["False False", "True False", "True False"], "")
    uses = source.replace("if __name__", "mp.get_context('forkserver').Queue()\n\n    if __name__")
    assert program.main(uses) == (["True False"] * 3, "")


# --- other processes


def test_processes_of_processes(program: Program) -> None:
    """A child, forked or not, has a server of its own when it starts processes."""
    source = """
    import forklift.multiprocessing as mp
    import marker

    def start(method, queue):
        child = mp.get_context("forkserver").Process(target=marker.say, args=(queue,))
        child.start()
        child.join()
        print(method, child.exitcode, queue.get(timeout=60)[0], flush=True)

    if __name__ == "__main__":
        context = mp.get_context("forkserver")
        queue = context.Queue()
        start("main", queue)
        for method in ("fork", "spawn", "forkserver"):
            child = mp.get_context(method).Process(target=start, args=(method, queue))
            child.start()
            child.join()
            assert child.exitcode == 0
        start("main", queue)
    """
    lines, errors = program.main(source)
    assert lines == [f"{each} 0 True" for each in ("main", "fork", "spawn", "forkserver", "main")]
    assert errors == ""


def test_many_threads_start_processes_at_once(program: Program) -> None:
    source = """
    import threading
    from multiprocessing import forkserver
    import forklift.multiprocessing as mp
    import marker

    if __name__ == "__main__":
        context = mp.get_context("forkserver")
        queue = context.Queue()
        def start():
            for _ in range(5):
                child = context.Process(target=marker.say, args=(queue,))
                child.start()
                child.join()
        threads = [threading.Thread(target=start) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(sum(queue.get(timeout=60)[0] for _ in range(20)))
    """
    assert program.main(source) == (["20"], "")
    assert program.imports() == 2


def test_the_standard_librarys_server_is_used_if_it_runs(program: Program) -> None:
    source = """
    import multiprocessing
    from multiprocessing import forkserver
    import forklift.multiprocessing as mp
    import marker

    if __name__ == "__main__":
        multiprocessing.get_context("forkserver").set_forkserver_preload(["marker"])
        children = []
        for module in (multiprocessing, mp, multiprocessing):
            child = module.get_context("forkserver").Process(target=marker.say)
            child.start()
            child.join()
            children.append(forkserver._forkserver._forkserver_pid)
        print(len(set(children)))
    """
    lines, errors = program.main(source)
    assert (lines[-1], errors) == ("1", "")


def test_the_memory_of_a_worker_with_torch(program: Program, capsys: Any) -> None:
    """A worker shares what the server has imported: at most 20 MB are its own."""
    pytest.importorskip("torch")
    source = """
    import torch
    import forklift.multiprocessing as mp

    def own(number):
        assert torch.ones(4).sum() == 4
        with open("/proc/self/smaps_rollup") as file:
            return sum(int(line.split()[1]) for line in file if line.startswith("Private_")) / 1024

    if __name__ == "__main__":
        for method in ("forkserver", "spawn"):
            with mp.get_context(method).Pool(1) as pool:
                print(method, pool.apply(own, (0,)))
    """
    lines, errors = program.main(source)
    found = {line.split()[0]: float(line.split()[1]) for line in lines}
    with capsys.disabled():
        print(
            "\nprivate memory of a worker with torch:", {name: f"{mb:.1f} MB" for name, mb in found.items()}
        )
    assert found["forkserver"] <= 20 < found["spawn"]
    assert errors == ""

"""Modules that the fork server cannot import beforehand, and forks that would hang."""

from __future__ import annotations

import re

import pytest
from fork_server_programs import NAMED, Program, warnings_in

# --- what cannot be imported


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (None, "is not preloaded: ModuleNotFoundError: No module named 'other'"),
        ("\n1 / 0", r"is not preloaded: ZeroDivisionError: division by zero \(.*other.py, line 2\)"),
        ("raise SystemExit(3)", r"is not preloaded: SystemExit: 3 \(.*other.py, line 1\)"),
        ("import os; os._exit(3)", r"its import ended the fork server \(exit code 3\)"),
        ("import os; os.kill(os.getpid(), 11)", r"its import ended the fork server \(signal 11\)"),
    ],
)
def test_a_module_that_fails(program: Program, body: str | None, why: str) -> None:
    if body is not None:
        program.write("other", body)
    lines, errors = program.main(NAMED.format(names=["other", "marker"]))
    assert lines == ["True False", "True False"]
    (warning,) = warnings_in(errors)
    assert warning.startswith("'other'")
    assert re.search(why, warning)
    assert "program.py" in errors  # the warning is that of the program's own line


def test_a_main_module_that_only_runs_in_the_program(program: Program) -> None:
    """The child fails as with the standard library: exit code 1, with the traceback."""
    source = """
    import forklift.multiprocessing as mp
    if __name__ != "__main__":
        raise ValueError("not here")
    child = mp.get_context("forkserver").Process(target=print)
    child.start()
    child.join()
    print(child.exitcode)
    """
    lines, errors = program.main(source)
    assert lines == ["1"]
    assert "ValueError: not here" in errors
    assert warnings_in(errors) == []


def test_a_module_that_starts_processes(program: Program) -> None:
    """As when a child imports it with the main module, it gets the standard library's error."""
    unguarded = """
    import os
    import forklift.multiprocessing as mp
    if "BEGUN" in os.environ:
        child = mp.get_context("spawn").Process(target=int)
        child.start()
        child.join()
    """
    program.write("unguarded", unguarded)
    source = """
    import os
    import forklift.multiprocessing as mp
    import unguarded
    if __name__ == "__main__":
        os.environ["BEGUN"] = "1"
        child = mp.get_context("forkserver").Process(target=int)
        child.start()
        child.join()
        print(child.exitcode)
    """
    lines, errors = program.main(source)
    assert lines == ["1"]  # the child's own import fails, too
    warning = warnings_in(errors)[0]
    assert warning.startswith("'unguarded' is not preloaded: RuntimeError: An attempt has been made")
    assert "bootstrapping phase" in warning


def test_a_warning_that_is_an_error(program: Program) -> None:
    """No process was started; the module is left out from then on."""
    source = """
    import forklift
    import forklift.multiprocessing as mp
    if __name__ == "__main__":
        context = mp.get_context("forkserver")
        context.set_forkserver_preload(["no_such_module"])
        child = context.Process(target=print, args=("ran",))
        try:
            child.start()
        except RuntimeWarning as error:
            print(type(error).__name__, child.pid)
        child = context.Process(target=print, args=("ran",))
        child.start()
        child.join()
    """
    assert program.main(source, "-W", "error::RuntimeWarning")[0] == ["ForkServerWarning None", "ran"]


# --- threads

TICKING = """
import threading
{marker}
threading.Thread(target=threading.Event().wait, name="ticker", daemon=True).start()
"""


def test_a_module_that_starts_a_thread(program: Program) -> None:
    """It is left out, so each child imports it; the others are still imported beforehand."""
    program.write("ticking", TICKING.format(marker=""))
    source = """
    import threading
    import forklift.multiprocessing as mp
    import marker, ticking

    def look():
        print(marker.imported_by(), sorted(each.name for each in threading.enumerate()), flush=True)

    if __name__ == "__main__":
        context = mp.get_context("forkserver")
        for _ in range(2):
            child = context.Process(target=look)
            child.start()
            child.join()
    """
    lines, errors = program.main(source)
    assert lines == ["True ['MainThread', 'ticker']"] * 2
    (warning,) = warnings_in(errors)
    assert warning == (
        "'ticking' is not preloaded, so each child imports it: it starts a thread that a forked child would "
        "not have: thread 'ticker' in threading.Event.wait"
    )


TICKER = 'threading.Thread(target=threading.Event().wait, name="ticker", daemon=True)'
# The server has another thread once it has forked the first child.
LATER = """
import os
{imports}
begun = []
def begin():
    if not begun:
        {begin}
os.register_at_fork(after_in_parent=begin)
"""
LOOK_LATER = """
import os, sys, signal
from multiprocessing import forkserver
import forklift.multiprocessing as mp
import marker, later

def look(queue):
    queue.put((marker.imported_by(), os.getppid(), os.getpid(), mp.parent_process().is_alive(),
               signal.getsignal(signal.SIGINT) is signal.default_int_handler))
    sys.exit(7)

if __name__ == "__main__":
    context = mp.get_context("forkserver")
    queue = context.Queue()
    for i in range(3):
        child = context.Process(target=look, args=(queue,), daemon=i == 2)
        child.start()
        shared, parent, pid, alive, interrupts = queue.get(timeout=60)
        child.join()
        print(shared, parent == forkserver._forkserver._forkserver_pid, pid == child.pid, alive, interrupts,
              child.exitcode, flush=True)
"""
FORKED, FRESH = "True True True True True 7", "False True True True True 7"


def test_a_thread_that_comes_later(program: Program) -> None:
    """Children are fresh interpreters then, the server's own children as ever, and one warning says why."""
    start = f"begun.append({TICKER}); begun[0].start()"
    program.write("later", LATER.format(imports="import threading", begin=start))
    lines, errors = program.main(LOOK_LATER)
    assert lines == [FORKED, FRESH, FRESH]
    (warning,) = warnings_in(errors)
    assert warning.endswith("the server has thread 'ticker' in threading.Event.wait")


def test_threads_that_survive_forks(program: Program) -> None:
    """OpenBLAS ends its threads before a fork, so its threads are no reason."""
    pytest.importorskip("numpy")
    threads = """import numpy; numpy.ones((600, 600)) @ numpy.ones((600, 600))"""
    program.write("later", LATER.format(imports="import numpy", begin=threads))
    assert program.main(LOOK_LATER) == ([FORKED] * 3, "")


def test_threads_of_a_library_are_named(program: Program) -> None:
    pytest.importorskip("torch")
    threads = "torch.set_num_threads(2); torch.ones(2000, 2000).exp_()"
    program.write("later", LATER.format(imports="import torch", begin=threads))
    lines, errors = program.main(LOOK_LATER)
    assert lines[1:] == [FRESH, FRESH]
    (warning,) = warnings_in(errors)
    assert re.search(r"the server has thread '\w+' of .*libgomp", warning)


def test_a_warning_of_a_fresh_child_that_is_an_error(program: Program) -> None:
    """The child that was started has ended when start() raises."""
    start = f"begun.append({TICKER}); begun[0].start()"
    program.write("later", LATER.format(imports="import threading", begin=start))
    source = """
    import forklift.multiprocessing as mp
    import later, time
    if __name__ == "__main__":
        context = mp.get_context("forkserver")
        first = context.Process(target=int)
        first.start()
        first.join()
        second = context.Process(target=time.sleep, args=(1000,))
        try:
            second.start()
        except RuntimeWarning as error:
            print(type(error).__name__, mp.active_children())
    """
    lines, _ = program.main(source, "-W", "error::RuntimeWarning")
    assert lines == ["ForkServerWarning []"]


def test_a_module_that_makes_a_lock(program: Program) -> None:
    """Each child has a lock of its own, as on spawn, unless the program names the module."""
    program.write("locks", "import forklift.multiprocessing as mp\nlock = mp.Lock()")
    source = """
    import forklift.multiprocessing as mp
    import locks

    def look():
        print(locks.lock.acquire(timeout=0), flush=True)

    if __name__ == "__main__":
        for _ in range(2):
            child = mp.get_context("forkserver").Process(target=look)
            child.start()
            child.join()
    """
    lines, errors = program.main(source)
    assert lines == ["True", "True"]
    (warning,) = warnings_in(errors)
    assert "'locks' is not preloaded" in warning
    assert "makes locks" in warning

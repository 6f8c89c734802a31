"""Children that are fresh interpreters join their parent's domain when they first use it, and not before."""

from __future__ import annotations

import multiprocessing.connection
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import child_boot_targets
import forklift
import forklift.multiprocessing
import pytest
import support
from forklift import _core, child_boot

spawn = forklift.multiprocessing.get_context("spawn")


@pytest.fixture(autouse=True)
def _without_managers(monkeypatch: pytest.MonkeyPatch) -> None:
    # Children of a process that has used managers are ready for them, which needs the core.
    monkeypatch.setattr(child_boot, "_tasks", {})


def _answer(target: Any, daemon: bool = False, context: Any = spawn) -> Any:
    # The standard library's: nothing of ours is among the arguments.
    mine, its = multiprocessing.connection.Pipe()
    with mine, its:
        child = context.Process(target=target, args=(its,), daemon=daemon)
        child.start()
        assert mine.poll(support.DEADLINE)
        said = mine.recv()
        child.join(support.DEADLINE)
        assert child.exitcode == 0
    return said


@pytest.mark.parametrize("daemon", [False, True])
def test_one_who_uses_nothing_loads_nothing(daemon: bool) -> None:
    assert not _answer(child_boot_targets.say_what_is_loaded, daemon)


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_one_who_comes_late_is_of_its_parents_domain(method: str) -> None:
    context = forklift.multiprocessing.get_context(method)
    assert _answer(child_boot_targets.say_the_domain, context=context) == (True, _core.domain_id())


def test_one_who_forks_before() -> None:
    mine, its = multiprocessing.connection.Pipe()
    with mine, its:
        child = spawn.Process(target=child_boot_targets.fork_first, args=(its,))
        child.start()
        for _ in range(2):
            assert mine.poll(support.DEADLINE)
            assert mine.recv() == _core.domain_id()
        child.join(support.DEADLINE)
        assert child.exitcode == 0


def test_one_who_has_closed_its_descriptors_has_a_domain_of_its_own() -> None:
    domain, got, intact = _answer(child_boot_targets.close_everything_first)
    assert domain != _core.domain_id()
    assert (got, intact) == ("one", True)


def test_one_who_cannot_join_says_so_each_time() -> None:
    said = _answer(child_boot_targets.have_no_room)
    assert len(said) == 2
    for each in said:
        assert "mmap" in each


def test_a_slot_is_free_when_its_process_has_become_another_program() -> None:
    before = forklift.stats()["processes"]
    mine, its = multiprocessing.connection.Pipe()
    with mine, its:
        child = spawn.Process(target=child_boot_targets.become_another_program, args=(its,))
        child.start()
        assert mine.poll(support.DEADLINE)
        support.until(lambda: _core.reap() >= 0 and forklift.stats()["processes"] == before, "a free slot")
        child.kill()
        child.join(support.DEADLINE)


def test_a_clean_exit_with_a_lock_is_no_death() -> None:
    lock = spawn.Lock()
    child = spawn.Process(target=child_boot_targets.hold_and_exit, args=(lock,))
    child.start()
    child.join(support.DEADLINE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not lock.acquire(timeout=0.2)
    lock.release()


def test_the_slot_of_one_that_was_killed_comes_back() -> None:
    before = forklift.stats()["processes"]
    child = spawn.Process(target=child_boot_targets.wait_for, args=("/nowhere/at/all",))
    child.start()
    assert forklift.stats()["processes"] == before + 1
    child.kill()
    child.join(support.DEADLINE)
    assert forklift.stats()["processes"] == before


def test_importing_the_package_loads_no_core() -> None:
    code = "import sys, forklift.multiprocessing as mp; mp.get_context('spawn'); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "forklift._core" not in done.stdout.split()
    for name in forklift.__all__:
        assert getattr(forklift, name) is not None


# A program whose main module has `{here}` in it, before anything else that a child could see.
COLLECTING = """
import gc
import os

at_first = gc.get_threshold()
{here}
from forklift.multiprocessing import get_context

def say():
    few = len(gc.get_objects(generation=0)) < 5_000
    frozen = gc.get_freeze_count() > 1000  # Python 3.12 freezes some itself
    print(at_first[0] >= 100_000, gc.get_threshold(), gc.isenabled(), frozen, few)

if __name__ == "__main__":
    print(at_first)
    child = get_context({method!r}).Process(target=say)
    child.start()
    child.join()
    raise SystemExit(child.exitcode)
"""


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
@pytest.mark.parametrize(
    ("here", "then"),
    [
        ("", "True {default} True {frozen} True"),
        ("gc.set_threshold(500, 5, 6)", "True (500, 5, 6) True {frozen} True"),
        ("gc.disable()", "True {default} False {frozen} True"),
        ("gc.freeze()", "True {default} True True True"),
    ],
)
def test_the_collector_is_as_the_program_wants_it(tmp_path: Path, method: str, here: str, then: str) -> None:
    program = tmp_path / "collecting.py"
    program.write_text(COLLECTING.format(here=here, method=method))
    done = subprocess.run(
        [sys.executable, program], capture_output=True, text=True, timeout=support.DEADLINE, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    default, said = done.stdout.splitlines()
    # A fork server's objects are frozen, for all of its children.
    assert said == then.format(default=default, frozen=method == "forkserver")

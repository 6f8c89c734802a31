"""``forklift.fork_report()``, guards of one's own, and ``python -m forklift fork-report``."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import forklift
import pytest
import support
from forklift import _core
from forklift.fork import Finding, ForkReport, guards
from plain_programs import FORKLIFT, python, write


def named(report: ForkReport, library: str) -> Finding:
    found = [each for each in report if each.library == library]
    assert len(found) == 1, str(report)
    return found[0]


@pytest.fixture
def guard() -> Iterator[Any]:
    """Registers guards, which are removed at the end."""
    names = []

    def register(name: str, function: Any) -> None:
        names.append(name)
        forklift.register_fork_guard(name, function)

    yield register
    for name in names:
        forklift.register_fork_guard(name, None)


@pytest.fixture
def thread() -> Iterator[threading.Thread]:
    end = threading.Event()
    one = threading.Thread(target=end.wait, name="waits")
    one.start()
    support.until_asleep(one.native_id)
    yield one
    end.set()
    one.join()


def test_a_python_thread_is_found_by_its_name(thread: threading.Thread) -> None:
    finding = named(forklift.fork_report(), "Python threads")
    assert "waits" in finding.threads
    assert finding.verdict == "safe if idle"
    assert finding.remedy


def test_the_report_is_a_table(guard: Any) -> None:
    guard(
        "a",
        lambda: [Finding("camera", "1.2", "busy", ["grabber"], "will hang", "it grabs", "doc", "stop it")],
    )
    report = forklift.fork_report()
    assert report.verdict == "will hang"
    assert report.findings[0].library == "camera", "the worst comes first"
    text = str(report)
    assert "camera 1.2" in text
    assert "evidence: it grabs (doc)" in text
    assert "remedy: stop it" in text
    assert len(report) == len(list(report))


def test_a_guard_that_raises_becomes_a_finding(guard: Any) -> None:
    def broken() -> list[Finding]:
        raise OSError("no camera")

    guard("broken", broken)
    finding = named(forklift.fork_report(), "broken")
    assert finding.verdict == "may hang"
    assert "OSError: no camera" in finding.evidence


def test_a_guard_that_returns_something_else_becomes_a_finding(guard: Any) -> None:
    guard("wrong", lambda: ["a string"])
    assert "str" in named(forklift.fork_report(), "wrong").evidence


def test_bad_arguments() -> None:
    with pytest.raises(TypeError, match="function"):
        forklift.register_fork_guard("x", 3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="verdict"):
        Finding("x", verdict="hangs")


def test_entry_points_are_guards(guard: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write(
        tmp_path / "a_driver.py",
        "from forklift.fork import Finding\ndef check(): return [Finding('driver')]\n",
    )
    info = tmp_path / "a_driver-1.dist-info"
    write(info / "METADATA", "Metadata-Version: 2.1\nName: a-driver\nVersion: 1\n")
    write(
        info / "entry_points.txt", "[forklift.fork_guards]\ndriver = a_driver:check\ngone = a_driver:none\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(guards, "_has_entry_points", False)
    guard("driver", None)
    guard("gone", None)
    report = forklift.fork_report()
    assert named(report, "driver").verdict == "may hang"
    assert "AttributeError" in named(report, "gone").evidence


def test_openblas_is_known_with_its_version() -> None:
    np = pytest.importorskip("numpy")
    np.ones((400, 400)) @ np.ones((400, 400))
    found = [each for each in forklift.fork_report() if each.library == "OpenBLAS"]
    if not found:
        pytest.skip("this NumPy has another BLAS")
    assert found[0].version[0].isdigit()
    assert found[0].verdict == "safe"


def test_an_examination_changes_nothing(thread: threading.Thread) -> None:
    before = support.descriptors()
    threads = threading.active_count()
    for _ in range(5):
        _core._guard.examine()
    assert support.descriptors() == before
    assert threading.active_count() == threads


PROGRAM = """
import os, sys, threading
end = threading.Event()
threading.Thread(target=end.wait, name="waits", daemon=True).start()
if os.fork() == 0:
    os._exit(0)
os.wait()
print(sys.argv[1:])
"""


def test_the_command_reports_before_every_fork_and_at_the_end(tmp_path: Path) -> None:
    script = write(tmp_path / "program.py", PROGRAM)
    done = python(*FORKLIFT, "fork-report", script, "--x", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "['--x']\n"
    assert done.stderr.count(" forks\n") == 1
    assert done.stderr.count(" ends\n") == 1
    assert "Python threads" in done.stderr


def test_the_command_needs_a_program(tmp_path: Path) -> None:
    done = python(*FORKLIFT, "fork-report", cwd=tmp_path)
    assert done.returncode != 0
    assert "usage" in done.stderr

"""``forklift doctor``: what it finds, what it says to it, and how it ends."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from forklift.cli.doctor import command, finding, installation, machine, speed

PARTS = {"area", "name", "level", "found", "consequence", "remedy", "value"}


def doctor(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "forklift", "doctor", *arguments],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        **options,
    )


def by_name(findings: list[dict[str, Any]], area: str) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in findings if each["area"] == area}


def test_a_machine_on_which_all_works() -> None:
    done = doctor("--json")
    assert (done.returncode, done.stderr) == (0, "")
    findings = json.loads(done.stdout)
    assert all(set(each) == PARTS and each["level"] in finding.LEVELS for each in findings)
    assert {each["area"] for each in findings} >= {"kernel", "limits", "memory", "python", "works", "speed"}
    assert set(by_name(findings, "works")) == {"fork", "spawn", "forkserver"}
    assert all(each["level"] == "good" for each in by_name(findings, "works").values())
    measured = by_name(findings, "speed")
    assert measured["copy"]["value"] > 1e8
    assert 0 < measured["wake-up"]["value"] < 0.1
    for each in findings:  # what is not as it should be says what follows
        assert each["level"] == "good" or each["consequence"]
        assert each["level"] in ("good", "note") or each["remedy"]


def test_limits_are_noticed() -> None:
    def lower() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
        resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))

    done = doctor("--quick", "--json", preexec_fn=lower)
    found = by_name(json.loads(done.stdout), "limits")
    assert found["open files"]["level"] == "warning"
    assert found["open files"]["found"] == "100"
    assert found["address space"]["level"] == "warning"
    assert "2 GiB" in found["address space"]["consequence"]
    assert "ulimit -v" in found["address space"]["remedy"]


def test_what_a_fork_would_meet(tmp_path: Path) -> None:
    (tmp_path / "camera.py").write_text(
        "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n"
    )
    (tmp_path / "broken.py").write_text("raise ValueError('no lens')\n")
    os.environ["PYTHONPATH"], before = str(tmp_path), os.environ.get("PYTHONPATH")
    try:
        found = {each.name: each for each in installation.forks(["broken", "nosuchmodule", "json", "camera"])}
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before
    assert found["json"].level == "good"
    assert (found["broken"].level, found["broken"].found) == ("note", "ValueError: no lens")
    assert "nosuchmodule" in found["nosuchmodule"].found
    assert found["camera"].level in ("good", "warning")


def test_a_start_method_that_fails_is_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "_EXCHANGE", "import sys; sys.exit('no ' + {method!r})")
    found = list(installation.works())
    assert [each.level for each in found] == ["trouble"] * 3
    assert "no spawn" in found[1].found
    assert "exit code 1" in found[1].found


def test_trouble_is_the_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "memfd_create", refuse)
    monkeypatch.setattr(machine, "memory", refuse)
    assert command.main(["--quick"]) == 1
    said = capsys.readouterr().out
    assert "TROUBLE memfd_create" in said
    assert "seccomp" in said
    assert "PermissionError: [Errno 1] not allowed" in said  # a part that fails does not hide the others
    assert "keep Forklift from working" in said


def refuse(*_: Any) -> Any:
    raise PermissionError(1, "not allowed")


def test_narrow_terminals() -> None:
    long = finding.warning("limits", "open files", "7 of them " * 9, "it fails " * 9, "ulimit " * 9)
    for width in (40, 80):
        text = finding.table([long, finding.good("limits", "x", "there")], width)
        assert all(len(line) <= width for line in text.splitlines())
        assert "-> ulimit" in text


def test_wrong_options() -> None:
    for wrong in (["--nope"], ["--import"], ["x"]):
        done = doctor(*wrong)
        assert done.returncode == 2
        assert "unknown option" in done.stderr
    assert "usage: forklift doctor" in doctor("--help").stdout


def test_who_reads_may_leave() -> None:
    done = subprocess.run(
        f"{sys.executable} -m forklift doctor --quick | head -n 1",
        shell=True,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("kernel\n", "")


@pytest.mark.parametrize(
    ("setting", "remedy"), [("advise", None), ("never", "FORKLIFT_HUGE_PAGES=1"), ("deny", "as root: echo")]
)
def test_huge_pages_can_be_had_unless_they_are_denied(
    monkeypatch: pytest.MonkeyPatch, setting: str, remedy: str | None
) -> None:
    words = "always within_size advise never deny force".replace(setting, f"[{setting}]")
    monkeypatch.setattr(machine, "text_of", lambda path: words if path.endswith("/shmem_enabled") else "")
    found = [each for each in machine.memory() if each.name == "huge pages"]
    assert [setting in each.found and each.remedy.startswith(remedy or "") for each in found] == [True] * (
        remedy is not None
    )


def test_one_processor_has_no_distance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    assert speed._distance() is None
    assert {each.name: each.level for each in machine.limits()}["processors"] == "note"

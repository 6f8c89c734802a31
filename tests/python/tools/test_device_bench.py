"""bench/device.py runs, on the fake driver, which needs no GPU. Its figures mean nothing there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import fake_cuda
import pytest

RUN = Path(__file__).resolve().parents[3] / "bench" / "device.py"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, RUN, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=fake_cuda.environment(),
    )


@pytest.mark.slow
def test_every_row_can_be_measured(tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    answer = run("--check-only", "--json", str(file))
    assert answer.returncode == 0, answer.stdout + answer.stderr
    measured = json.loads(file.read_text())
    found = {one["row"] for one in measured}
    assert {"device-fresh-4K", "device-shared-1G", "device-small-100k", "device-from-arena"} <= found
    assert all(one["ours"] > 0 for one in measured if not one["row"].startswith("device-flat"))
    # What the tensors took is given back, whatever the machine.
    (left,) = (one for one in measured if one["row"] == "device-flat-left")
    assert left["ours"] == 0
    (peak,) = (one for one in measured if one["row"] == "device-flat-peak")
    assert peak["holds"]


@pytest.mark.weekly
def test_it_says_why_torchs_rows_are_missing() -> None:
    answer = run("--check-only", "--rows", "device-shared-4K")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "without torch's rows and figures: torch" in answer.stdout


def test_figures_of_the_fake_driver_are_not_written_down(tmp_path: Path) -> None:
    assert run("--rows", "device-shared-4K").returncode == 2
    assert run("--check-only", "--markdown", str(tmp_path / "out.md")).returncode == 2

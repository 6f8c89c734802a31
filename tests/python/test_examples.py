"""Every example runs, in a reduced size where it has one, and says what it should."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"


def run(*command: str | Path) -> str:
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=EXAMPLES,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env={**os.environ, "PYTHONWARNINGS": "default"},
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr
    return done.stdout


def names(folder: str) -> list[str]:
    return sorted(path.relative_to(EXAMPLES).as_posix() for path in (EXAMPLES / folder).glob("*.py"))


def test_there_are_examples() -> None:
    assert len(names("tour")) >= 9
    assert len(names("seeds")) >= 9


@pytest.mark.parametrize("program", names("tour"))
def test_tour(program: str) -> None:
    assert run(program).strip()  # the programs check their own results


SAYS = {
    "seeds/mindspore_process.py": "log(tensor(2.0)) = tensor(0.6931)",
    "seeds/mindspore_pool.py": "[tensor(0.6931), tensor(0.6931)]",
    "seeds/mindspore_fork_after_computing.py": "child process: log(tensor(2.0)) = 0.6931",
    "seeds/mindspore_spawn.py": "child process: log(tensor(2.0)) = 0.6931",
    "seeds/notes_queue.py": "hello from process 9",
    "seeds/notes_lock.py": "hello from process 9",
    "seeds/notes_shared_memory.py": "3.1415927\n[0, -1, -2, -3, -4, -5, -6, -7, -8, -9]",
    "seeds/notes_manager.py": "{1: '1', '2': 2, 0.25: None}\n[9, 8, 7, 6, 5, 4, 3, 2, 1, 0]",
    "seeds/torch_sender.py": "=== ITER 9 ===",
}


@pytest.mark.parametrize("program", names("seeds"))
def test_other_packages_programs(program: str) -> None:
    assert SAYS[program] in run(program)


def test_the_real_job_gives_the_same_losses_on_both_libraries(tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    few = ["--batches", "20", "--held-out", "2", "--size", "32"]
    said = run("photo_crops.py", *few, "--json", out)
    theirs, ours = json.loads(out.read_text())
    assert (theirs["library"], ours["library"]) == ("stdlib", "forklift")
    assert len(ours["losses"]) == 20
    assert ours["losses"] == theirs["losses"]
    assert ours["accuracy"] == theirs["accuracy"]
    assert "the same to the last bit" in said


def test_the_real_job_learns(tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    run("photo_crops.py", "--library", "forklift", "--batches", "150", "--held-out", "4", "--json", out)
    result: dict[str, Any] = json.loads(out.read_text())
    assert result["accuracy"] > 0.35  # of ten classes
    assert result["losses"][-1] < result["losses"][0]


def test_simulator(tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    run("simulator.py", "--steps", "50", "--json", out)
    result = json.loads(out.read_text())
    assert result["frames"] == 50
    assert result["mean_error"] < 2.0
    assert result["mean_error"] == pytest.approx(result["mean_error_there"])


def test_the_readme_says_what_its_example_prints(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text()
    code, rest = text.split("```python\n", 1)[1].split("```", 1)
    said = rest.split("```\n", 1)[1].split("```", 1)[0]
    program = tmp_path / "readme.py"
    program.write_text(code)
    assert run(program) == said


@pytest.mark.skipif(not (ROOT / "bench" / "RESULTS.md").exists(), reason="nothing was measured yet")
def test_the_readmes_figures_are_the_measured_ones() -> None:
    run(ROOT / "tools" / "readme_table.py", "--check")

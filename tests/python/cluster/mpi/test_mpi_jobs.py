"""Pools in MPI jobs: one job of a node with three ranks, one of two nodes, in which many checks run."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import mpi_checks
import mpi_ending
import mpi_jobs
import pytest

SCRIPT = Path(__file__).parent / "mpi_checks.py"
# Ranks; ranks of a node; nodes. Two ranks of which each is a node: the driver's has its agent beside it.
JOBS = {"one node": (3, "", 1), "two nodes": (4, "2", 2), "lone driver": (2, "1", 2)}


@pytest.fixture(scope="module", params=JOBS)
def outcomes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    ranks, size, nodes = JOBS[request.param]
    folder = tmp_path_factory.mktemp("job")
    done = mpi_jobs.run(
        ranks,
        "-m",
        "forklift.mpi",
        SCRIPT,
        folder,
        seconds=240,
        FORKLIFT_MPI_NODE_RANKS=size,
        CHECKED_NODES=str(nodes),
    )
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {line["check"]: line["error"] for line in lines}, done


@pytest.mark.parametrize("check", mpi_checks.CHECKS)
def test_in_a_job(outcomes: Any, check: str) -> None:
    errors, done = outcomes
    assert check in errors, done.stderr
    assert errors[check] is None, errors[check]


def test_the_job_ends_in_good_order(outcomes: Any) -> None:
    _, done = outcomes
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("ranks", [pytest.param(3, marks=pytest.mark.weekly), 1])
def test_what_is_on_its_way_when_a_pool_ends_is_given_back(ranks: int) -> None:
    done = mpi_jobs.run(ranks, "-m", "forklift.mpi", Path(__file__).parent / "mpi_ending.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["0"] * mpi_ending.POOLS


def test_arguments_and_modules(tmp_path: Path) -> None:
    (tmp_path / "shown.py").write_text(
        "import sys, __main__\nprint(sys.argv, __name__, __main__.__file__, sys.path[0])\n"
    )
    done = mpi_jobs.run(1, "-m", "forklift.mpi", tmp_path / "shown.py", "-a", "b c")
    script = str(tmp_path / "shown.py")
    assert done.stdout.strip() == f"{[script, '-a', 'b c']} __main__ {script} {tmp_path}", done.stderr
    done = mpi_jobs.run(2, "-m", "forklift.mpi", "-m", "platform")
    assert done.returncode == 0
    assert done.stdout.count("Linux") == 1, "the other ranks run no script"


def test_the_example(tmp_path: Path) -> None:
    example = Path(__file__).parents[4] / "examples" / "monte_carlo.py"
    done = mpi_jobs.run(3, "-m", "forklift.mpi", example, "--tasks", "14", "--deaths", cwd=tmp_path)
    assert done.stdout == "pi is about 3.1411; 2 workers died\n", done.stdout + done.stderr


@pytest.mark.weekly
def test_the_photographs_job_has_the_same_losses_as_on_this_machine(tmp_path: Path) -> None:
    pytest.importorskip("sklearn", reason="the photographs are scikit-learn's")
    pytest.importorskip("torch", reason="the network is torch's")
    example = Path(__file__).parents[4] / "examples" / "photo_cluster.py"
    few = ["--batches", "6", "--held-out", "1", "--size", "16", "--json"]
    subprocess.run([sys.executable, example, *few, tmp_path / "here"], check=True, capture_output=True)
    job = ["-m", "forklift.mpi", example, "--context", "mpi", *few, tmp_path / "job"]
    done = mpi_jobs.run(3, *job, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    here, there = (json.loads((tmp_path / name).read_text()) for name in ("here", "job"))
    assert len(there["losses"]) == 6
    assert (there["losses"], there["accuracy"]) == (here["losses"], here["accuracy"])


def test_the_program_of_the_document(tmp_path: Path) -> None:
    text = (Path(__file__).parents[4] / "docs" / "scale.md").read_text()
    (program,) = re.findall(r"```python\n([^`]*get_context\(\"mpi\"\).*?)```", text, re.DOTALL)
    (tmp_path / "program.py").write_text(program)
    done = mpi_jobs.run(2, "-m", "forklift.mpi", tmp_path / "program.py")
    assert done.stdout == "3512\n", done.stderr


def test_outside_of_a_job_without_mpi() -> None:
    code = "import forklift.multiprocessing as mp; mp.get_context('mpi')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if "needs mpi4py" not in done.stderr:
        assert "RuntimeError" in done.stderr
        assert "mpirun -n 4 python -m forklift.mpi script.py" in done.stderr
    hidden = f"import sys; sys.modules['mpi4py'] = None; {code}"
    done = subprocess.run([sys.executable, "-c", hidden], capture_output=True, text=True, check=False)
    assert 'ImportError: get_context("mpi") needs mpi4py: python -m pip install "mpi4py>=4"' in done.stderr


def test_a_start_method_it_is_not() -> None:
    import forklift.multiprocessing as mp

    with pytest.raises(ValueError, match="no start method"):
        mp.set_start_method("mpi")

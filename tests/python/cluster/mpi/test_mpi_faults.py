"""MPI jobs whose processes are killed or stopped, and scripts that fail: the job ends, and leaves nothing."""

from __future__ import annotations

import time
from pathlib import Path

import mpi_jobs
import pytest
import support

SCRIPT = Path(__file__).parent / "mpi_dying.py"


@pytest.mark.parametrize(
    ("how", "status", "says"),
    [
        ("agent", None, "rank 1"),
        ("stopped agent", 1, "rank 1 (process"),
        ("driver", None, "rank 0"),
        ("exception", 1, "LookupError: nothing catches this"),
        ("exit", 7, ""),
        ("leave", 0, ""),
    ],
)
def test_an_end(how: str, status: int | None, says: str) -> None:
    job = mpi_jobs.start(
        2, "-m", "forklift.mpi", SCRIPT, how, FORKLIFT_MPI_NODE_RANKS="1", FORKLIFT_MPI_SILENCE="6"
    )
    assert job.stdout is not None
    pids = [int(pid) for pid in job.stdout.readline().split()]
    begin = time.monotonic()
    _, errors = job.communicate(timeout=support.DEADLINE)
    assert len(pids) >= 6, errors
    assert time.monotonic() - begin < 30
    assert says in errors
    if status is None:
        assert job.returncode != 0
    else:
        assert job.returncode == status
    if how == "leave":
        assert errors == ""
    support.until(lambda: not any(mpi_jobs.alive(pid) for pid in pids), "all processes end")


def test_a_job_at_rest_uses_little_of_the_processor() -> None:
    done = mpi_jobs.run(4, "-m", "forklift.mpi", SCRIPT, "rest")
    shares = [float(share) for share in done.stdout.splitlines()[1].split()]
    assert len(shares) == 4, done.stderr
    # Measured: 0.008 for the driver and the agent, 0.001 for the others.
    assert max(shares) < 0.05, shares


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("FORKLIFT_MPI_NODE_RANKS", "0", "must be the number of ranks of a node"),
        ("FORKLIFT_MPI_SILENCE", "soon", "must be a number of seconds above 4, not 'soon'"),
    ],
)
def test_variables_with_wrong_values(name: str, value: str, says: str) -> None:
    done = mpi_jobs.run(2, "-m", "forklift.mpi", SCRIPT, "rest", **{name: value})
    assert done.returncode == 1
    assert f"{name} {says}" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_child_that_the_script_forks_is_no_driver(tmp_path: Path) -> None:
    (tmp_path / "forks.py").write_text(
        "import os, sys\n"
        "import forklift.multiprocessing as mp\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    try:\n"
        "        mp.get_context('mpi')\n"
        "    except RuntimeError:\n"
        "        os._exit(3)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
        "with mp.get_context('mpi').Pool() as pool:\n"
        "    print(pool.map(abs, [-1, -2]))\n"
    )
    done = mpi_jobs.run(2, "-m", "forklift.mpi", tmp_path / "forks.py")
    assert done.stdout == "3\n[1, 2]\n", done.stderr
    assert done.returncode == 0

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


def test_a_group_size_that_is_none() -> None:
    done = mpi_jobs.run(2, "-m", "forklift.mpi", SCRIPT, "rest", FORKLIFT_MPI_NODE_RANKS="0")
    assert done.returncode != 0
    assert "FORKLIFT_MPI_NODE_RANKS must be the number of ranks of a node" in done.stderr

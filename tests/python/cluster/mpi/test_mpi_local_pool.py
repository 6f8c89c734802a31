"""The local pool's own tests on the context "mpi": pytest runs as the script of an MPI job."""

from __future__ import annotations

from pathlib import Path

import mpi_jobs
import pytest

FOLDER = Path(__file__).parents[1]


@pytest.mark.slow
@pytest.mark.weekly
def test_the_local_pools_tests() -> None:
    done = mpi_jobs.run(
        3,
        *("-m", "forklift.mpi", "-m", "pytest", "-q", "-p", "no:cacheprovider"),
        *sorted(FOLDER.glob("test_local_pool*.py")),
        seconds=280,
        FORKLIFT_TESTED_CLUSTER="mpi",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout

"""Pools in an MPI job: ours and mpi4py's, each with two workers in a job of three ranks of its own."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

from rows.spec import Library, Row, Scale

SCRIPT = Path(__file__).parents[1] / "mpi" / "map_tiny.py"
OURS = "forklift.cluster"
PEER = "mpi4py"


def _tiny(library: Library, scale: Scale) -> float:
    """Thousands of tasks a second, of a fresh job."""
    ours = library.name == OURS
    count = scale.count(100_000 if ours else 5_000, 500)
    done = subprocess.run(
        [
            *("mpirun", "--oversubscribe", "-n", "3", sys.executable, "-m"),
            "forklift.mpi" if ours else "mpi4py.futures",
            *(str(SCRIPT), "ours" if ours else "peer", str(count)),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"},
    )
    return float(done.stdout)


ROWS: tuple[Row, ...] = (
    Row(
        "mpi-map-tiny",
        "k/s",
        10,
        more_is_better=True,
        measure=_tiny,
        ours=OURS,
        peer=PEER,
        repeat=3,
        note="chunksize 1",
    ),
)
if importlib.util.find_spec("mpi4py") is None or shutil.which("mpirun") is None:
    ROWS = ()

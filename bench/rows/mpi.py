"""Pools in an MPI job: ours and mpi4py's, each with two workers in a job of three ranks of its own.

And a collective of C++ in a job of two nodes.
"""

from __future__ import annotations

import importlib.util
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

from peers.mpi import environment

from rows.spec import Library, Row, Scale

SCRIPT = Path(__file__).parents[1] / "mpi" / "map_tiny.py"
OURS = "forklift.cluster"
PEER = "mpi4py"


# Both contenders of a job's collectives, in turn in one job.
GROUP_PROGRAM = Path(__file__).parents[2] / "build" / "release" / "bench" / "forklift_bench_mpi_group"


def _all_reduce(library: Library, scale: Scale) -> float:
    """Microseconds of an all_reduce over two nodes of two ranks; the median of three rounds."""
    size, count = scale.nbytes(1 << 26), scale.count(10, 2)
    done = subprocess.run(
        ["mpirun", "--oversubscribe", "-n", "4", str(GROUP_PROGRAM), str(size), str(count), "3"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env=environment(FORKLIFT_MPI_NODE_RANKS="2"),
    )
    rounds = [[float(word) for word in line.split()] for line in done.stdout.splitlines()]
    return statistics.median(each[0 if library.name == OURS else 1] for each in rounds)


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
        env=environment(),
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
        note="chunksize 1",
    ),
    Row(
        "mpi-all-reduce-64M",
        "us",
        1,
        measure=_all_reduce,
        ours=OURS,
        peer=PEER,
        note="C++: two nodes of two ranks, on one machine; the peer is MPI_Allreduce in the same job",
    ),
)
if not GROUP_PROGRAM.exists():
    ROWS = ROWS[:1]
if importlib.util.find_spec("mpi4py") is None or shutil.which("mpirun") is None:
    ROWS = ()

"""Starts MPI jobs, and tells which of their processes are left."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

# What Open MPI needs for several ranks on one machine, in a container, as root. The single-copy mechanism is
# forbidden in many containers, which is said on standard error.
_ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
    "PYTHONFAULTHANDLER": "1",
}


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Where jobs have their files. Open MPI leaves some when a job is killed; they go with this process."""
    return tempfile.TemporaryDirectory(prefix="mpi-", ignore_cleanup_errors=True)


def start(
    ranks: int, *arguments: object, cwd: Path | None = None, **environment: str
) -> subprocess.Popen[str]:
    """Start ``mpirun -n RANKS python ARGUMENT ...`` with pipes for its output and errors."""
    folder = _folder().name
    files = {"TMPDIR": folder, "OMPI_MCA_btl_vader_backing_directory": folder}
    return subprocess.Popen(
        ["mpirun", "--oversubscribe", "-n", str(ranks), sys.executable, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env={**os.environ, **_ENVIRONMENT, **files, **environment},
    )


def run(
    ranks: int, *arguments: object, seconds: float = 120, cwd: Path | None = None, **environment: str
) -> Any:
    """Run a job to its end: its exit status, output and errors. TimeoutExpired: it was ended."""
    job = start(ranks, *arguments, cwd=cwd, **environment)
    try:
        out, errors = job.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        job.terminate()
        job.communicate()
        raise
    return subprocess.CompletedProcess(arguments, job.returncode, out, errors)


def alive(pid: int) -> bool:
    try:
        return "(zombie)" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False

"""The MPI job that this process is the driver of. Does not import mpi4py.MPI, which initialises MPI."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from forklift.cluster.mpi.job import Job

__all__ = ["current", "set_current"]

_job: Job | None = None
_pid = 0


def set_current(job: Job) -> None:
    """Note that this process is the driver of a job."""
    global _job, _pid
    _job, _pid = job, os.getpid()


def current() -> Job:
    """The job that this process is the driver of. RuntimeError if it is none."""
    if _job is None or _pid != os.getpid():
        raise RuntimeError(
            'get_context("mpi") works in the script of an MPI job, in the process that runs the script:'
            " start it with `mpirun -n 4 python -m forklift.mpi script.py` (or srun with the same command)"
        )
    return _job

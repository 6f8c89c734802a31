"""What MPI needs to be installed, and the errors that say so."""

from __future__ import annotations

from typing import Any

__all__ = ["check", "mpi"]

_PIP = 'python -m pip install "mpi4py>=4" "cloudpickle>=3"'
_APT = "apt-get install openmpi-bin libopenmpi-dev"


def check() -> None:
    """ImportError, with the line for pip, if a package is missing or too old."""
    try:
        import cloudpickle  # type: ignore[import-untyped,unused-ignore]  # noqa: F401
        import mpi4py
    except ImportError as error:
        raise ImportError(f'get_context("mpi") needs {error.name}: {_PIP}') from error
    if int(mpi4py.__version__.split(".")[0]) < 4:
        raise ImportError(f'get_context("mpi") needs mpi4py 4 or newer, not {mpi4py.__version__}: {_PIP}')


def mpi() -> Any:
    """The module mpi4py.MPI, initialised. ImportError if there is no MPI library, or one without threads."""
    check()
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise ImportError(
            f"mpi4py finds no MPI library: {_APT} (or load your cluster's module): {error}"
        ) from error
    if MPI.Query_thread() < MPI.THREAD_SERIALIZED:
        raise ImportError(
            "the MPI library was initialised for calls of the main thread only: forklift.mpi needs"
            " MPI_THREAD_SERIALIZED (mpi4py.rc.thread_level)"
        )
    return MPI

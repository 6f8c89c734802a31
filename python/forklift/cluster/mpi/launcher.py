"""``python -m forklift.mpi script.py``: what each rank of the job runs."""

from __future__ import annotations

import atexit
import os
import runpy
import signal
import sys
import traceback
from multiprocessing import util
from typing import Any, NoReturn

from forklift import _core
from forklift.cluster.mpi import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from forklift.cluster.mpi.job import Job

__all__ = ["main"]

_USAGE = """usage: mpirun -n RANKS python -m forklift.mpi [-m MODULE | SCRIPT] [ARGUMENT ...]

Runs a script on rank 0, in which forklift.multiprocessing.get_context("mpi") has the pools of the whole job.
The other ranks host the workers."""


def main(arguments: list[str]) -> NoReturn:
    """Run a rank of the job. Ends the process."""
    if not arguments or arguments[0] in ("-h", "--help") or arguments == ["-m"]:
        print(_USAGE, file=sys.stdout if arguments[:1] in (["-h"], ["--help"]) else sys.stderr)
        sys.exit(0 if arguments[:1] in (["-h"], ["--help"]) else 2)
    from forklift.cluster.mpi.needs import mpi

    MPI = mpi()
    from forklift.cluster.mpi.current import set_current
    from forklift.cluster.mpi.job import Job, abort

    comm = MPI.COMM_WORLD.Dup()
    try:
        ranks, nodes = _meet(MPI, comm)
        if comm.rank:
            _serve(comm, ranks, nodes)
            sys.exit(0)
        job = Job(comm, ranks, nodes)
    except Exception as error:
        # Without this the rank would wait in MPI_Finalize, and the others for the rank.
        if not isinstance(error, ValueError):
            traceback.print_exc()
        abort(comm, f"rank {comm.rank} cannot go on: {error}")
    set_current(job)
    status = _Status()
    # Registered before the script registers anything, so it is called last.
    atexit.register(_end, job, comm, status)
    _run(arguments, status)


def _meet(MPI: Any, comm: Any) -> tuple[list[layout.Rank], list[layout.Node]]:
    """All ranks of the job, and the nodes that they make up. All ranks call this."""
    local = comm.Split_type(MPI.COMM_TYPE_SHARED)
    machine = local.bcast(comm.rank, 0)
    local.Free()
    ranks = comm.allgather(layout.this_rank(comm.rank, machine, _core.__version__))
    return ranks, layout.grouped(ranks, os.environ)


def _serve(comm: Any, ranks: list[layout.Rank], nodes: list[layout.Node]) -> None:
    """What a rank other than the driver does."""
    from forklift.cluster.mpi import serving

    # A launcher may send an interrupt to all ranks: what follows from it is the driver's business.
    signal.signal(signal.SIGINT, lambda *_: None)
    node = next((each for each in nodes if each.agent == comm.rank), None)
    if node is None:
        serving.wait(comm, ranks)
    else:
        serving.serve(comm, ranks, node)


class _Status:
    """With what the script has ended."""

    code = 0


def _end(job: Job, comm: Any, status: _Status) -> None:
    """End the job with the script: in good order, or with its status by MPI_Abort."""
    if os.getpid() != job.pid:
        return  # a child that the script forked
    sys.stdout.flush()
    sys.stderr.flush()
    if status.code:
        job.halt()
        comm.Abort(status.code)
        os._exit(status.code)
    # The script's pools, which would be ended after this otherwise.
    util._run_finalizers(0)  # type: ignore[attr-defined]
    job.end()


def _run(arguments: list[str], status: _Status) -> NoReturn:
    """Run the script as the interpreter does."""
    try:
        if arguments[0] == "-m":
            sys.argv = arguments[1:]
            runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = list(arguments)
            if not getattr(sys.flags, "safe_path", False):
                sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
            _run_script(arguments[0])
    except SystemExit as end:
        status.code = _status_of(end)
        raise
    except BaseException as error:
        status.code = 130 if isinstance(error, KeyboardInterrupt) else 1
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename in _OWN_FILES:
            trace = trace.tb_next
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        sys.exit(status.code)
    sys.exit(0)


def _run_script(path: str) -> None:
    """Run a file as the module __main__, which stays: pools and child processes look at it."""
    main = type(sys)("__main__")
    main.__dict__.update(__file__=path, __builtins__=__builtins__, __spec__=None, __cached__=None)
    sys.modules["__main__"] = main
    with open(path, "rb") as file:
        code = compile(file.read(), path, "exec")
    exec(code, main.__dict__)


_OWN_FILES = (__file__, runpy.__file__, "<frozen runpy>")


def _status_of(end: SystemExit) -> int:
    """The exit status of a SystemExit, as the interpreter has it."""
    if end.code is None:
        return 0
    return end.code & 0xFF if isinstance(end.code, int) else 1

"""``start_processes``, ``spawn`` and the ProcessContext that they return, as in ``torch.multiprocessing``.

The core waits for all ranks at once and ends those that are left (src/process/group.h).
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterable, Sequence

from forklift import _core
from forklift.multiprocessing import context as _context
from forklift.multiprocessing._pool.options import cpus_of
from forklift.multiprocessing._ranks.call import ForkedCall, SharedCall
from forklift.multiprocessing._ranks.failures import Failure, error_of
from forklift.multiprocessing._ranks.files import Report, Turn, read_report
from forklift.multiprocessing._ranks.rank import Place, Setup, run_rank

TYPE_CHECKING = False
if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess
    from typing import Any

__all__ = [
    "ENV_VAR_PARALLEL_START",
    "ProcessContext",
    "SpawnContext",
    "spawn",
    "start_processes",
    "start_ranks",
]

ENV_VAR_PARALLEL_START = "TORCH_MP_PARALLEL_START"
_PUBLIC = "forklift.multiprocessing.spawn"
# torch's logger, so that programs which listen to it hear of ranks that are ended.
log = logging.getLogger("torch.multiprocessing.spawn")

_MOST_IN_GROUP = 1024  # ranks that forklift.collectives can have
_GRACE_S = 30.0  # from SIGTERM to SIGKILL, as in torch
# When nobody can wait for the ranks any more: how long they may take to end by themselves (Ctrl-C in a
# terminal reaches them, too), and after SIGTERM.
_PATIENCE_S, _LAST_GRACE_S = 1.0, 5.0


class ProcessContext:
    """Processes that stop together: ``processes``, by rank.

    ``sentinels`` maps the sentinels of those that have not been joined to their ranks, and ``error_files``
    has for each rank the path of a file that holds a pickled traceback once an exception has ended the rank.
    """

    __module__ = _PUBLIC

    def __init__(self, processes: Sequence[BaseProcess], error_files: Sequence[str]) -> None:
        self._begin(processes, error_files, _core.ProcessGroup())
        for pid in self.pids():
            self._ranks.add(pid)

    def _begin(
        self, processes: Sequence[BaseProcess], error_files: Sequence[str], ranks: _core.ProcessGroup
    ) -> None:
        self.error_files = error_files
        self.processes = processes
        self.sentinels = {process.sentinel: index for index, process in enumerate(processes)}
        self._ranks = ranks
        self._failures: list[Failure] = []
        # Held by the thread that looks at ranks which have ended, or ends them.
        self._judging = threading.RLock()
        self._reports: list[Report] = []  # keeps the files in error_files

    def pids(self) -> list[int]:
        """The process ids, by rank."""
        return [int(process.pid) for process in self.processes]  # type: ignore[arg-type]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait until some ranks have ended. True: all have, and none has failed.

        Returns False when some have ended and others run, or when ``timeout`` seconds have passed: call it
        again. If a rank has failed, whichever it is, the others get ``grace_period`` seconds to end by
        themselves, then SIGTERM, and after another ``grace_period`` (30 seconds if it is None) SIGKILL. Then
        ProcessRaisedException or ProcessExitedException is raised, at each call.
        """
        ended = self._ranks.wait(timeout) if self.sentinels and not self._failures else []
        with self._judging:
            if not self._failures:
                self._failures = self._collect(ended)
                if not self._failures:
                    return not self.sentinels
                self._failures.sort(key=lambda each: -each.weight)
                grace = _GRACE_S if grace_period is None else grace_period
                self._failures += self._stop(grace_period or 0.0, grace)
            raise error_of(self._failures)

    def _collect(self, ended: Iterable[int]) -> list[Failure]:
        """Join processes that have ended, and say which of them have failed."""
        failures = []
        for rank in ended:
            process = self.processes[rank]
            process.join()
            self.sentinels.pop(process.sentinel, None)
            code = process.exitcode
            if code:
                report = read_report(self.error_files[rank]) or (None, None)
                failures.append(Failure(rank, int(process.pid or 0), code, *report))
        return failures

    def _stop(self, patience: float, grace: float) -> list[Failure]:
        """End the ranks that still run. Returns the failures of those that our signals have not ended."""
        left = sorted(self.sentinels.values())
        try:
            sent = self._ranks.stop(patience, grace)
        finally:
            failures = self._collect(left)  # also when a signal handler has raised: no rank runs any more
        for rank in left:
            if sent.get(rank):
                pid = self.processes[rank].pid
                log.warning("Terminating process %s via signal SIGTERM", pid)
                if sent[rank] == signal.SIGKILL:
                    log.warning(
                        "Unable to shutdown process %s via SIGTERM , forcefully exiting via SIGKILL", pid
                    )
        return [each for each in failures if each.traceback is not None or not sent.get(each.rank)]


class SpawnContext(ProcessContext):
    """The former name of ProcessContext."""

    __module__ = _PUBLIC

    def __init__(self, processes: Sequence[BaseProcess], error_files: Sequence[str]) -> None:
        warnings.warn("SpawnContext is renamed to ProcessContext since 1.4 release.", stacklevel=2)
        super().__init__(processes, error_files)


def start_processes(
    fn: Callable[..., object],
    args: Iterable[Any] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Start ``nprocs`` processes, each of which calls ``fn(rank, *args)``, and wait for them.

    With ``join=False`` returns the ProcessContext, by which the program waits itself. All ranks are started
    before the first one has read its arguments; these are pickled once, and tensors among them are shared.
    TORCH_MP_PARALLEL_START=0 in the environment has the fork server's start in turn. The ranks end with this
    process, however it ends. ``start_ranks`` has more options.
    """
    return start_ranks(fn, args, nprocs, join=join, daemon=daemon, start_method=start_method)


def start_ranks(
    fn: Callable[..., object],
    args: Iterable[Any] = (),
    nprocs: int = 1,
    *,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
    cpus: Sequence[int | Iterable[int]] | None = None,
    name: str | None = None,
) -> ProcessContext | None:
    """As ``start_processes``, with options that torch does not have.

    cpus   for each rank the number, or numbers, of the processors on which it runs: those of a NUMA node,
           say. If there are more ranks, the list is gone through again.
    name   ranks are called ``name-0``, ``name-1``, ...: the processes and, as the kernel sees them, their
           main threads
    """
    context = _context._default_context.get_context(start_method)
    sets = cpus_of(cpus)
    reports = [Report() for _ in range(nprocs)]
    method = context.get_start_method()
    call: Any = None
    if reports:
        call = ForkedCall(fn, args) if method == "fork" else SharedCall(fn, args)
    in_turn = method == "forkserver" and os.environ.get(ENV_VAR_PARALLEL_START) == "0"
    processes: list[BaseProcess] = []
    ranks = _core.ProcessGroup()
    memory = _core._create_group(nprocs) if 0 < nprocs <= _MOST_IN_GROUP else None
    try:
        for rank, report in enumerate(reports):
            called = None if name is None else f"{name}-{rank}"
            wanted = None if sets is None else sets[rank % len(sets)]
            setup = None if called is None and wanted is None else Setup(wanted, called)
            turn = Turn() if in_turn else None
            place = None if memory is None else Place(rank, memory)
            work = (call, rank, report.for_child(method == "fork"), setup, turn, place)
            process = context.Process(target=run_rank, name=called, args=work, daemon=daemon)
            _start(process, ranks)
            processes.append(process)
            if turn is not None:
                turn.wait()
    except BaseException:
        _abandon(_group_of(processes, ranks, reports))
        raise
    group = _group_of(processes, ranks, reports)
    if not join:
        return group
    _join_all(group)
    return None


start_processes.__module__ = start_ranks.__module__ = _PUBLIC


def _start(process: BaseProcess, ranks: _core.ProcessGroup) -> None:
    process.start()
    try:
        # At once: when the next one starts, the standard library waits for those that have ended, and from
        # then on their pids may be others'.
        ranks.add(int(process.pid or 0))
    except BaseException:
        process.kill()
        process.join()
        raise


def _group_of(
    processes: list[BaseProcess], ranks: _core.ProcessGroup, reports: list[Report]
) -> ProcessContext:
    group = ProcessContext.__new__(ProcessContext)
    group._begin(processes, [each.path for each in reports], ranks)
    group._reports = reports
    return group


def _join_all(group: ProcessContext) -> None:
    try:
        while not group.join():
            pass
    finally:
        _abandon(group)


def _abandon(group: ProcessContext) -> None:
    """End the ranks of a group that nobody else knows. Does nothing if none is left."""
    if group.sentinels:
        group._stop(_PATIENCE_S, _LAST_GRACE_S)


def spawn(
    fn: Callable[..., object],
    args: Iterable[Any] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """As ``start_processes``, always in fresh interpreters: another ``start_method`` is only warned about."""
    if start_method != "spawn":
        msg = (
            f"This method only supports start_method=spawn (got: {start_method}).\n"
            "To use a different start_method use:\n\t\t"
            " forklift.multiprocessing.start_processes(...)"
        )
        warnings.warn(msg, FutureWarning, stacklevel=2)
    return start_processes(fn, args, nprocs, join, daemon, start_method="spawn")


spawn.__module__ = _PUBLIC

"""The MPI job as its driver sees it: its nodes, and the calls to their agents.

While a pool lives, a thread of the driver exchanges messages with the agents; it alone makes MPI calls. An
agent that hosts a pool is heard of every two seconds, whatever its workers do. From one that stays silent
the job cannot go on: the driver says which one it is, and aborts the job.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any, NoReturn

from mpi4py import MPI

from forklift.cluster.mpi.calls import Caller, Link
from forklift.cluster.mpi.layout import Node, Rank
from forklift.cluster.mpi.messenger import Messenger
from forklift.cluster.mpi.parcels import packed

__all__ = ["ALIVE", "ALIVE_SECONDS", "LEAVE", "LEFT", "Job", "abort"]

ALIVE = "alive"  # the message of an agent that only says that it is there
LEAVE = "leave"  # to all ranks: the job has ended
LEFT = "left"  # the last message of an agent
ALIVE_SECONDS = 2.0
# After so many seconds of silence an agent counts as lost; the environment variable sets another time.
SILENCE_VARIABLE = "FORKLIFT_MPI_SILENCE"
_SILENCE = 60.0
# If MPI_Abort does not end the process in so many seconds, it ends itself.
_ABORT_SECONDS = 10.0
# For so long the thread's last MPI call may take before the job is aborted all the same.
_HALT_SECONDS = 1.0


def _silence_of(text: str) -> float:
    try:
        seconds = float(text or _SILENCE)
    except ValueError:
        seconds = 0.0
    if not seconds > 2 * ALIVE_SECONDS:
        raise ValueError(
            f"{SILENCE_VARIABLE} must be a number of seconds above {2 * ALIVE_SECONDS:g}, not {text!r}"
        )
    return seconds


class Job:
    """See the module. There is one in a process, made by the launcher."""

    def __init__(self, comm: MPI.Intracomm, ranks: list[Rank], nodes: list[Node]) -> None:
        self.pid = os.getpid()
        self.ranks = ranks
        self.nodes = nodes
        self._comm = comm
        self._messenger = Messenger(comm, self._came)
        self._lock = threading.Lock()
        self._callers = {each.agent: self._caller(each.agent) for each in nodes if each.agent is not None}
        self._pools = dict.fromkeys(self._callers, 0)  # by rank: how many pools the agent hosts
        self._quiet = dict.fromkeys(self._callers, 0.0)  # by rank: seconds without a message
        self._silence = _silence_of(os.environ.get(SILENCE_VARIABLE, ""))
        self._thread: threading.Thread | None = None
        self._over = False
        self._halted = False
        self._left: set[int] = set()  # agents that have taken their leave

    def _caller(self, rank: int) -> Caller:
        return Caller(lambda parts: self._messenger.post(rank, parts))

    def is_one_machine(self) -> bool:
        """Tells whether all ranks are on one machine."""
        return len({each.machine for each in self.ranks}) == 1

    def link(self, agent: int) -> Link:
        """Calls to an agent for a new pool, which counts as living until they are killed."""
        ended = threading.Lock()

        def end() -> None:
            if ended.acquire(blocking=False):
                with self._lock:
                    self._pools[agent] -= 1

        with self._lock:
            self._pools[agent] += 1
            if self._pools[agent] == 1:
                self._quiet[agent] = 0.0
            if self._thread is None and not self._over:
                self._thread = threading.Thread(target=self._run, name="MPI", daemon=True)
                self._thread.start()
        return Link(self._callers[agent], end)

    # --- the thread

    def _run(self) -> None:
        self._run_until(lambda: self._halted or self._may_rest())

    def _run_until(self, is_done: Callable[[], bool]) -> None:
        """Exchange messages. Aborts the job if that is not possible any more."""
        before = time.monotonic()
        try:
            while not is_done():
                self._messenger.step()
                now = time.monotonic()
                # A driver that was stopped itself, or did not get the processor, must not blame the agents.
                self._listen(min(now - before, 1.0))
                before = now
        except MPI.Exception as error:
            abort(self._comm, f"the MPI library failed in the driver: {error}")
        except Exception:
            traceback.print_exc()
            abort(self._comm, "the driver cannot exchange messages with its agents any more")

    def _may_rest(self) -> bool:
        with self._lock:
            # An answer whose pool has ended is received to its end, or its memory would stay until the next
            # pool. At the job's end, end() receives the rest, and waits for no agent that stays silent.
            moves = self._messenger.is_sending() or (self._messenger.is_receiving() and not self._over)
            rests = not any(self._pools.values()) and not moves
            if rests:
                self._thread = None
            return rests

    def _came(self, rank: int, message: Any) -> None:
        self._quiet[rank] = 0.0
        if message == LEFT:
            self._left.add(rank)
        elif message != ALIVE:
            self._callers[rank].answered(message)

    def _listen(self, seconds: float) -> None:
        for rank, pools in self._pools.items():
            if pools:
                self._quiet[rank] += seconds
                if self._quiet[rank] > self._silence:
                    abort(
                        self._comm,
                        f"{self.ranks[rank]}, the agent of its node, has not been heard of for"
                        f" {self._silence:g} s: it was killed or stopped, or its machine cannot be reached",
                    )

    # --- the end

    def halt(self) -> None:
        """Make no more MPI calls in the thread, so that this one can make the last one."""
        self._halted = True
        self._messenger.wake()
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join(_HALT_SECONDS)

    def end(self) -> None:
        """Release the other ranks, and wait until agents have ended their pools. No pool is made any more."""
        with self._lock:
            self._over = True
            for rank in self._pools:
                self._pools[rank] = 0
            thread = self._thread
        for caller in self._callers.values():
            caller.close()
        self._messenger.wake()
        if thread is not None:
            thread.join()
        leave = packed(LEAVE)
        for each in self.ranks[1:]:
            self._messenger.post(each.rank, leave)
        with self._lock:
            self._pools = dict.fromkeys(self._callers, 1)  # listen to them all, a last time
            self._quiet = dict.fromkeys(self._callers, 0.0)
        self._run_until(lambda: not self._messenger.is_sending() and self._left.issuperset(self._callers))


def abort(comm: MPI.Intracomm, why: str, status: int = 1) -> NoReturn:
    """End the whole job: write why to standard error, and call MPI_Abort."""
    print(f"forklift.mpi: {why}", file=sys.stderr, flush=True)

    def end() -> None:
        time.sleep(_ABORT_SECONDS)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=end, name="MPIAbort", daemon=True).start()
    comm.Abort(status)
    os._exit(status)

"""What ranks other than the driver do: agents carry out its calls, all others wait for the end."""

from __future__ import annotations

import os
import select
import threading
import time
import traceback

from mpi4py import MPI

from forklift.cluster.mpi.hosting import Host, settle_in
from forklift.cluster.mpi.job import ALIVE, ALIVE_SECONDS, LEAVE, LEFT, abort
from forklift.cluster.mpi.layout import Node, Rank
from forklift.cluster.mpi.messenger import Messenger
from forklift.cluster.mpi.parcels import packed

__all__ = ["serve", "wait"]

# How often a rank that hosts nothing looks whether the job has ended, in seconds.
_LOOK_SECONDS = 0.05


def serve(comm: MPI.Intracomm, ranks: list[Rank], node: Node) -> None:
    """Host the node's workers until the driver ends the job. MPI calls are made by this thread only."""
    me = ranks[comm.rank]
    end_with_driver(ranks[0], me)
    settle_in()
    os.sched_setaffinity(0, node.cpus)
    left = False

    def came(_rank: int, message: object) -> None:
        nonlocal left
        if message == LEAVE:
            left = True
        else:
            host.called(message)

    messenger = Messenger(comm, came)
    host = Host(lambda parts: messenger.post(0, parts))
    said = 0.0
    try:
        while not left:
            messenger.step()
            if host.has_pools() and time.monotonic() >= said + ALIVE_SECONDS:
                said = time.monotonic()
                messenger.post(0, packed(ALIVE))
        host.close()
        messenger.post(0, packed(LEFT))
        while messenger.is_sending():
            messenger.step()
    except MPI.Exception as error:
        abort(comm, f"the MPI library failed in {me}: {error}")
    except Exception as error:
        traceback.print_exc()
        abort(comm, f"{me} cannot exchange messages with the driver any more: {error}")


def wait(comm: MPI.Intracomm, ranks: list[Rank]) -> None:
    """Wait for the end of the job, with next to no use of the processor."""
    end_with_driver(ranks[0], ranks[comm.rank])
    while not comm.Iprobe(0, MPI.ANY_TAG):
        time.sleep(_LOOK_SECONDS)
    comm.Recv([bytearray(64), MPI.BYTE], 0, MPI.ANY_TAG)


def end_with_driver(driver: Rank, me: Rank) -> None:
    """End this process when the driver has ended, if that can be seen, or the launcher's process here."""
    pids = [os.getppid()] if os.getppid() > 1 else []
    if driver.processes == me.processes:
        pids.append(driver.pid)
    poll = select.poll()
    for pid in pids:
        try:
            poll.register(os.pidfd_open(pid), select.POLLIN)
        except ProcessLookupError:
            os._exit(1)

    def watch() -> None:
        poll.poll()
        os._exit(1)

    threading.Thread(target=watch, name="MPILifeline", daemon=True).start()

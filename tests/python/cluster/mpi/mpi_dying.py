"""A script that says which processes its job has, and ends as its argument says."""

from __future__ import annotations

import os
import signal
import sys
import time

import forklift.multiprocessing as mp
from forklift.cluster.mpi.current import current


def cpu_seconds(pid: int) -> float:
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main(how: str) -> None:
    ctx = mp.get_context("mpi")
    inbox = ctx.Queue()
    pool = ctx.Pool()
    pool.map(abs, range(8), 1)
    while any(each.state != "ready" or not each.pids for each in pool.nodes()):
        time.sleep(0.01)
    nodes = pool.nodes()
    ranks = [each.pid for each in current().ranks]
    print(*ranks, *[pid for each in nodes for pid in (each.pid, *each.pids)], flush=True)
    if how == "rest":
        before = [cpu_seconds(pid) for pid in ranks]
        time.sleep(5)
        print(*[(cpu_seconds(pid) - b) / 5 for pid, b in zip(ranks, before, strict=True)])
        sys.exit(0)
    running = pool.map_async(time.sleep, [300] * 8, 1)
    inbox.put(1)
    if how == "agent":
        os.kill(nodes[-1].pid, signal.SIGKILL)
    elif how == "stopped agent":
        os.kill(nodes[-1].pid, signal.SIGSTOP)
    elif how == "driver":
        os.kill(os.getpid(), signal.SIGKILL)
    elif how == "exception":
        raise LookupError("nothing catches this")
    elif how == "exit":
        sys.exit(7)
    elif how == "leave":
        return
    running.get()


if __name__ == "__main__":
    main(sys.argv[1])

"""The actor that runs one process of a cluster on a node, as a child of its own."""

from __future__ import annotations

import os
import signal
from typing import Any

import ray

import forklift.multiprocessing
from forklift.cluster import tasks
from forklift.cluster.agent import settle_in

__all__ = ["Host", "host_class"]


class Host:
    """What runs in the actor."""

    _process: Any
    _ends: Any

    @ray.method(concurrency_group="control")  # type: ignore[untyped-decorator]
    def begin(self, packed: Any, name: str, authkey: bytes, sys_path: list[str]) -> int:
        """Start the process. Returns its process id."""
        settle_in(authkey, sys_path)
        context = forklift.multiprocessing.get_context("forkserver")
        self._ends = context.SimpleQueue()
        data, buffers = packed
        content = (bytes(data), [bytes(each) for each in buffers])
        self._process = context.Process(
            target=tasks.run_target, args=(content, self._ends, authkey), name=name
        )
        self._process.start()
        pid: int = self._process.pid
        return pid

    @ray.method(concurrency_group="wait")  # type: ignore[untyped-decorator]
    def wait(self) -> tuple[int, Any]:
        """Wait for the end. Returns the exit code, and the description of the exception that ended it."""
        self._process.join()
        description = None if self._ends.empty() else self._ends.get()
        return self._process.exitcode, description

    @ray.method(concurrency_group="control")  # type: ignore[untyped-decorator]
    def send_signal(self, number: int) -> None:
        """Send a signal to the process, if it runs."""
        if self._process.exitcode is None:
            os.kill(self._process.pid, signal.Signals(number))


def host_class() -> Any:
    """The host as an actor's class, to be given options. Its node needs a free CPU when it is started."""
    return ray.remote(concurrency_groups={"control": 1, "wait": 1}, max_restarts=0)(Host)

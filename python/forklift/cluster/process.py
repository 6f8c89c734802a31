"""Processes on the nodes of a Ray cluster.

    ctx = mp.get_context("ray")
    process = ctx.Process(target=serve, args=(ctx.Queue(),))
    process.start()                        # on a node that Ray chooses, in a fresh interpreter
    process.join()

A process ends with the program that started it, however that ends. ``exitcode`` is minus the number of the
signal that killed it; -9 if its node was lost.
"""

from __future__ import annotations

import atexit
import itertools
import os
import signal
import sys
import weakref
from collections.abc import Callable, Iterable, Mapping
from multiprocessing import process as _std_process
from typing import Any

import ray

from forklift.cluster import engine
from forklift.cluster.host import host_class
from forklift.cluster.packing import Packer
from forklift.errors import NotAcrossNodesError
from forklift.multiprocessing._pool import failures as _pool_failures
from forklift.multiprocessing._pool.label import Label
from forklift.multiprocessing._ranks.failures import Failure

__all__ = ["Process"]

_numbers = itertools.count(1)
_lasting: weakref.WeakSet[Process] = weakref.WeakSet()  # started, and no daemons


class Process:
    """A process on some node. As the standard library's, but for what is of one machine only.

    ``daemon``: the program does not wait for the process at its end. ``ray_remote_args``: what it reserves
    (``num_cpus``, ``num_gpus``, ``resources``), ``runtime_env``, ``scheduling_strategy``. A subclass may
    override ``run``.
    """

    def __init__(
        self,
        group: None = None,
        target: Callable[..., object] | None = None,
        name: str | None = None,
        args: Iterable[Any] = (),
        kwargs: Mapping[str, Any] = {},
        *,
        daemon: bool | None = None,
        ray_remote_args: Mapping[str, Any] | None = None,
    ) -> None:
        assert group is None, "group argument must be None for now"
        self.name = name or f"RayProcess-{next(_numbers)}"
        self.daemon = bool(daemon)
        self._target = target
        self._args = tuple(args)
        self._kwargs = dict(kwargs)
        self._options = dict(ray_remote_args or {})
        self._host: Any = None
        self._end: Any = None  # the reference of Host.wait
        self._outcome: tuple[int, Any] | None = None
        self._pid: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_host": None, "_end": None}

    def run(self) -> None:
        """What the process does: call the target."""
        if self._target is not None:
            self._target(*self._args, **self._kwargs)

    def start(self) -> None:
        """Start the process; waits until it runs. AssertionError if it was started before."""
        assert self._host is None, "cannot start a process twice"
        engine.connect()
        packed = Packer().pack((self.run, (), {}))
        options: dict[str, Any] = {"scheduling_strategy": "SPREAD", **self._options}
        self._host = host_class().options(**options).remote()
        authkey = bytes(_std_process.current_process().authkey)
        paths = [path or os.getcwd() for path in sys.path]
        self._pid = ray.get(self._host.begin.remote(packed, self.name, authkey, paths))
        self._end = self._host.wait.remote()
        self._last()

    def _last(self) -> None:
        """Have the program wait for the process at its end, unless it is a daemon."""
        if not self.daemon:
            if not _lasting:
                atexit.register(_join_lasting)
            _lasting.add(self)

    def _look(self, timeout: float | None) -> bool:
        """Wait at most so many seconds for the end; tells whether it has come."""
        assert self._end is not None, "can only join a started process"
        if self._outcome is None:
            done, _ = ray.wait([self._end], timeout=timeout)
            if not done:
                return False
            try:
                self._outcome = ray.get(self._end)
            except ray.exceptions.RayError:
                self._outcome = (-signal.SIGKILL, None)
            self._host = False  # the actor ends when nothing refers to it
        return True

    def join(self, timeout: float | None = None) -> None:
        """Wait until the process has ended, or so many seconds."""
        self._look(timeout)

    def is_alive(self) -> bool:
        return self._end is not None and not self._look(0)

    @property
    def exitcode(self) -> int | None:
        """None while it runs."""
        if self._end is None or not self._look(0):
            return None
        return self._outcome[0] if self._outcome is not None else None

    @property
    def pid(self) -> int | None:
        """The process id on its node."""
        return self._pid

    ident = pid

    @property
    def sentinel(self) -> int:
        raise NotAcrossNodesError("a process of another node has no descriptor: use join(timeout)")

    def terminate(self) -> None:
        """Send SIGTERM."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        if self.is_alive():
            try:
                ray.get(self._send(int(number)))
            except ray.exceptions.RayError:
                pass  # it has ended, with its node

    def _send(self, number: int) -> Any:
        return self._host.send_signal.remote(number)

    def close(self) -> None:
        """ValueError if the process still runs."""
        if self.is_alive():
            raise ValueError("Cannot close a process while it is still running. Call join() or terminate().")

    def __repr__(self) -> str:
        state = "initial" if self._end is None else f"exitcode={self.exitcode}"
        return f"<{type(self).__name__} name={self.name!r} pid={self._pid} {state}>"

    def failure(self, rank: int) -> Failure | None:
        """How it failed, if it has."""
        code = self.exitcode
        if not code or self._outcome is None:
            return None
        description = self._outcome[1]
        if description is None:
            return Failure(rank, self._pid or 0, code)
        original = _pool_failures.revive(Label(self.name), 0, description)
        return Failure(rank, self._pid or 0, code, description[1], original)


def _join_lasting() -> None:
    """At the program's end: wait for the processes that are no daemons."""
    for process in list(_lasting):
        if ray.is_initialized():
            process.join()

"""``get_context("ray")``: the names of a context, for processes on all nodes of a Ray cluster."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

from forklift.cluster import engine
from forklift.cluster.keeper import start_manager
from forklift.cluster.kept import ClusterManager
from forklift.cluster.pool import Pool
from forklift.cluster.process import Process, Ranks, spawn
from forklift.errors import NotAcrossNodesError

__all__ = ["RayContext"]


class RayContext:
    """See the module; docs/scale.md describes each name. It connects to Ray when something is made."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._manager: ClusterManager | None = None

    def get_context(self, method: str | None = None) -> Any:
        """This context; with the name of a start method, the context of that one."""
        if method in (None, "ray"):
            return self
        from forklift.multiprocessing import context

        return context._default_context.get_context(method)

    def get_start_method(self, allow_none: bool = False) -> str:
        return "ray"

    def cpu_count(self) -> int:
        """The number of CPUs of all nodes."""
        engine.connect()
        return int(sum(node["Resources"].get("CPU", 0) for node in engine.nodes() if node["Alive"]))

    def Pool(
        self,
        processes: int | None = None,
        initializer: Callable[..., object] | None = None,
        initargs: Iterable[Any] = (),
        maxtasksperchild: int | None = None,
        *,
        finalizer: Callable[[], object] | None = None,
        timeout: float | None = None,
        retries: int = 0,
        warm_spare: bool = False,
        max_memory: int | None = None,
        cpus: Any = None,
        nested: bool = False,
        log: bool = False,
        ray_remote_args: Mapping[str, Any] | None = None,
    ) -> Pool:
        """A pool of workers on all nodes. See forklift.cluster.pool.Pool."""
        return Pool(
            processes,
            initializer,
            initargs,
            maxtasksperchild,
            context=self,
            finalizer=finalizer,
            timeout=timeout,
            retries=retries,
            warm_spare=warm_spare,
            max_memory=max_memory,
            cpus=cpus,
            nested=nested,
            log=log,
            ray_remote_args=ray_remote_args,
        )

    # --- processes

    Process = Process

    def spawn(
        self,
        fn: Callable[..., object],
        args: Iterable[Any] = (),
        nprocs: int = 1,
        join: bool = True,
        daemon: bool = False,
        ray_remote_args: Mapping[str, Any] | None = None,
    ) -> Ranks | None:
        """Run fn(rank, *args) in `nprocs` processes, which stop together. See forklift.cluster.process."""
        return spawn(fn, args, nprocs, join, daemon, ray_remote_args)

    # --- what processes of all nodes use: see forklift.cluster.kept

    def Manager(self) -> ClusterManager:
        """A manager of its own: the methods of ``multiprocessing.Manager()``, on this machine's node."""
        return start_manager()

    def _kept(self) -> Any:
        with self._lock:
            if self._manager is None or not self._manager.is_alive():
                self._manager = start_manager()
            return self._manager

    def Queue(self, maxsize: int = 0) -> Any:
        """A queue of objects, which holds at most ``maxsize`` of them if that is positive."""
        return self._kept().Queue(maxsize)

    def JoinableQueue(self, maxsize: int = 0) -> Any:
        """A Queue; every queue here has ``task_done`` and ``join``."""
        return self._kept().JoinableQueue(maxsize)

    def SimpleQueue(self) -> Any:
        """A Queue without a bound."""
        return self._kept().Queue(0)

    def Lock(self) -> Any:
        """A lock; it is free again when its holder's process, or thread, has ended."""
        return self._kept().Lock()

    def RLock(self) -> Any:
        """A lock that its holder may acquire again, and must release as often."""
        return self._kept().RLock()

    def Event(self) -> Any:
        """A flag that processes can wait for: set, clear, is_set, wait."""
        return self._kept().Event()

    def Semaphore(self, value: int = 1) -> Any:
        """A counter that ``acquire`` decrements."""
        return self._kept().Semaphore(value)

    def BoundedSemaphore(self, value: int = 1) -> Any:
        """A Semaphore whose value never exceeds its initial value."""
        return self._kept().BoundedSemaphore(value)

    def Condition(self, lock: None = None) -> Any:
        """A condition with a lock of its own. NotAcrossNodesError for a given one."""
        if lock is not None:
            raise NotAcrossNodesError(
                "a condition between nodes has its own lock: Condition(), and acquire() of the condition"
            )
        return self._kept().Condition()

    def Barrier(
        self, parties: int, action: Callable[[], object] | None = None, timeout: float | None = None
    ) -> Any:
        """A barrier at which ``parties`` processes or threads wait until all have come."""
        return self._kept().Barrier(parties, action, timeout)

    # --- what holds within one machine only

    def Value(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise _no_memory("Value")

    def Array(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise _no_memory("Array")

    def RawValue(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise _no_memory("RawValue")

    def RawArray(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise _no_memory("RawArray")

    def Pipe(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise NotAcrossNodesError(
            "Pipe() connects processes of one machine: use two queues of this context between nodes"
        )


def _no_memory(name: str) -> NotAcrossNodesError:
    return NotAcrossNodesError(
        f"{name}() is memory of one machine, which other nodes cannot see: use"
        " Manager().Value(...), Manager().list() or Manager().dict() of this context, or return results"
    )

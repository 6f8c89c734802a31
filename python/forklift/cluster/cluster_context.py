"""What the contexts of all clusters have: pools, queues and their kin."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

from forklift.cluster.kept import ClusterManager
from forklift.cluster.pool import Pool
from forklift.cluster.transport import Transport
from forklift.errors import NotAcrossNodesError

__all__ = ["ClusterContext"]


class ClusterContext:
    """The base of RayContext and MpiContext; docs/scale.md describes each name."""

    _name: str
    instead_of_cpus: str  # of a pool's option cpus

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._manager: ClusterManager | None = None

    def _start_manager(self) -> ClusterManager:
        """A manager whose server is in a new process of the driver's node."""
        raise NotImplementedError

    def _transport(self, options: Mapping[str, Any]) -> Transport:
        """The transport of a new pool, with the options that only this cluster has."""
        raise NotImplementedError

    def get_context(self, method: str | None = None) -> Any:
        """This context; with the name of another context or of a start method, that one."""
        if method in (None, self._name):
            return self
        from forklift.multiprocessing import context

        return context._default_context.get_context(method)

    def get_start_method(self, allow_none: bool = False) -> str:
        return self._name

    def _pool(
        self,
        processes: int | None,
        initializer: Callable[..., object] | None,
        initargs: Iterable[Any],
        maxtasksperchild: int | None,
        own: Mapping[str, Any],
        options: Mapping[str, Any],
    ) -> Pool:
        """A pool. `own`: options that only this cluster has; `options`: those of all pools."""

        def transport() -> Transport:
            return self._transport(own)

        return Pool(
            processes,
            initializer,
            initargs,
            maxtasksperchild,
            context=self,
            transport=transport,
            **options,
        )

    # --- what processes of all nodes use: see forklift.cluster.kept

    def Manager(self) -> ClusterManager:
        """A manager of its own: the methods of ``multiprocessing.Manager()``, on this machine's node."""
        return self._start_manager()

    def _kept(self) -> Any:
        with self._lock:
            if self._manager is None or not self._manager.is_alive():
                self._manager = self._start_manager()
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

"""``get_context("ray")``: the names of a context, for processes on all nodes of a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

from forklift.cluster import engine
from forklift.cluster.pool import Pool
from forklift.errors import NotAcrossNodesError

__all__ = ["RayContext"]


class RayContext:
    """See the module; docs/scale.md describes each name. It connects to Ray when something is made."""

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

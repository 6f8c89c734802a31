"""The same pools, queues and groups on a cluster: ``forklift.multiprocessing.get_context("ray")``, or "mpi".

    import forklift.multiprocessing as mp

    ctx = mp.get_context("ray")
    with ctx.Pool() as pool:                       # as many workers as the cluster has CPUs
        pool.map(render, scenes, retries=1)

docs/scale.md says what holds between nodes, and what does not.
"""

from __future__ import annotations

from typing import Any

__all__ = ["context"]

_contexts: dict[str, Any] = {}


def context(name: str) -> Any:
    """The context of a cluster. ImportError, with the line for pip, if what it needs is not installed.

    RuntimeError for "mpi" in a process that is not the driver of an MPI job.
    """
    if name == "mpi":
        from forklift.cluster.mpi import current, needs

        needs.check()
        current.current()
    if name not in _contexts:
        _contexts[name] = _mpi() if name == "mpi" else _ray()
    return _contexts[name]


def _ray() -> Any:
    try:
        import cloudpickle  # type: ignore[import-untyped,unused-ignore]  # noqa: F401
        import ray  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f'get_context("ray") needs {error.name}: python -m pip install "ray>=2.40" "cloudpickle>=3"'
        ) from error
    from forklift.cluster.ray_context import RayContext

    return RayContext()


def _mpi() -> Any:
    from forklift.cluster.mpi.context import MpiContext

    return MpiContext()

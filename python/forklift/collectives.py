"""Collectives on tensors over a group of processes, with the names of torch.distributed and mpi4py.

    import forklift.collectives as dist
    import forklift.multiprocessing as mp

    def train(rank, shards):
        group = dist.group()                    # the ranks that started together
        gradient = gradient_of(shards[rank])    # forklift.Tensor, NumPy array, torch tensor of the CPU, ...
        group.all_reduce(gradient, "mean")      # in place: the same bits at all ranks
        group.barrier()

    mp.start_processes(train, (shards,), nprocs=4)      # on Ray: mp.get_context("ray").spawn(...)

    memory = dist.create(2)                     # or by hand: sent to two processes, of which each calls
    group = dist.join(memory, rank)

All ranks make the same calls in the same order, with the same dtype, shape, root and reduction. Tensors in
shared memory (``forklift.Tensor``, torch's after they were shared) are read where they lie; others are copied
through a block of shared memory, which the group keeps up to 64 MiB; an all_reduce of other memory
passes through 2 MiB of it (128 KiB a rank in groups of more than 16).

Reductions are ``"sum"``, ``"product"``, ``"min"``, ``"max"``, ``"mean"``, or a function that combines its
second tensor into its first one, both forklift.Tensors. They combine in the order of ranks, so all ranks get
the same bits. float16 and bfloat16 are accumulated in float32; bools have min and max only, complex numbers
neither, integers no mean.

Errors:

- PeerDiedError: a rank's process has ended. The group cannot be used any more.
- CollectiveMismatchError: the ranks called different things; the text names each rank's call. Nothing was
  done, and the group goes on.
- TimeoutError: the others had not come in time. They get BrokenGroupError; the group cannot be used any more.
- ValueError, NotImplementedError (memory of a device), MemoryError: this rank's arguments. The others get
  CollectiveMismatchError, and the group goes on.
- BrokenByForkError: a forked child of a rank is no rank.

The calls of a rank's threads, and asynchronous ones, are done one after the other in the order of issue. A
KeyboardInterrupt in a call breaks the group.
"""

from __future__ import annotations

import sys

from forklift import _core
from forklift.errors import NotFoundError
from forklift.multiprocessing._ranks import rank as _rank

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    Reduction: TypeAlias = str | Callable[[_core.Tensor, _core.Tensor], object]

__all__ = ["Group", "Work", "create", "group", "join"]


class Work:
    """A collective that is under way. Its tensors are the call's until it is done."""

    def __init__(self, call: _core.PendingCollective, result: Any) -> None:
        self._call = call
        self._result = result

    def done(self) -> bool:
        """Whether it has ended, in whatever way."""
        return self._call.done()

    def wait(self, timeout: float | None = None) -> Any:
        """Wait for the end and return the result. TimeoutError: it goes on; otherwise as the call itself."""
        self._call.wait(timeout)
        return self._result


class Group:
    """One rank's handle on a group of processes.

    ``timeout``: for how many seconds a call waits for the others; None: as long as it takes. With
    ``async_op=True`` a call returns a Work at once, and has no time-out.
    """

    def __init__(self, core: _core.GroupRank) -> None:
        self._core = core
        self.rank = core.rank
        self.size = core.size

    def __repr__(self) -> str:
        return f"<forklift.collectives.Group: rank {self.rank} of {self.size}>"

    def barrier(self, *, timeout: float | None = None, async_op: bool = False) -> Any:
        """Wait until all ranks have come."""
        return self._call("barrier", None, None, -1, None, timeout, async_op)

    def broadcast(
        self, x: Any, root: int = 0, *, timeout: float | None = None, async_op: bool = False
    ) -> Any:
        """The root's elements into ``x`` of all. Returns ``x``."""
        return self._call("broadcast", x, x, root, None, timeout, async_op)

    def reduce(
        self,
        x: Any,
        root: int = 0,
        op: Reduction = "sum",
        *,
        timeout: float | None = None,
        async_op: bool = False,
    ) -> Any:
        """All ranks' ``x``, combined, into the root's. Returns ``x``."""
        return self._call("reduce", x, x, root, op, timeout, async_op)

    def all_reduce(
        self, x: Any, op: Reduction = "sum", *, timeout: float | None = None, async_op: bool = False
    ) -> Any:
        """All ranks' ``x``, combined, into ``x`` of all. Returns ``x``."""
        return self._call("all_reduce", x, x, -1, op, timeout, async_op)

    def gather(
        self,
        x: Any,
        out: Any = None,
        root: int = 0,
        *,
        timeout: float | None = None,
        async_op: bool = False,
    ) -> Any:
        """All ranks' ``x`` into ``out`` of the root, with one more dimension. Returns it; None elsewhere."""
        if root != self.rank:
            out = None
        elif out is None:
            out = _like(x, (self.size, *x.shape))
        return self._call("gather", x, out, root, None, timeout, async_op)

    def all_gather(
        self, x: Any, out: Any = None, *, timeout: float | None = None, async_op: bool = False
    ) -> Any:
        """All ranks' ``x`` into ``out`` of all, which has one more dimension. Returns it."""
        if out is None:
            out = _like(x, (self.size, *x.shape))
        return self._call("all_gather", x, out, -1, None, timeout, async_op)

    def scatter(
        self, x: Any, out: Any, root: int = 0, *, timeout: float | None = None, async_op: bool = False
    ) -> Any:
        """A part of the root's ``x``, by its first dimension, into each rank's ``out``. Returns ``out``."""
        return self._call("scatter", x if root == self.rank else None, out, root, None, timeout, async_op)

    def reduce_scatter(
        self,
        x: Any,
        out: Any = None,
        op: Reduction = "sum",
        *,
        timeout: float | None = None,
        async_op: bool = False,
    ) -> Any:
        """All ranks' ``x``, combined; part r of the result into ``out`` of rank r. Returns ``out``."""
        if out is None:
            out = _like(x, x.shape[1:])
        return self._call("reduce_scatter", x, out, -1, op, timeout, async_op)

    def all_to_all(
        self, x: Any, out: Any = None, *, timeout: float | None = None, async_op: bool = False
    ) -> Any:
        """Part j of ``x`` at rank i becomes part i of ``out`` at rank j. Returns ``out``."""
        if out is None:
            out = _like(x, x.shape)
        return self._call("all_to_all", x, out, -1, None, timeout, async_op)

    def _call(
        self,
        name: str,
        x: Any,
        out: Any,
        root: int,
        op: Reduction | None,
        timeout: float | None,
        async_op: bool,
    ) -> Any:
        source = _memory(x)
        target = source if out is x else _memory(out)
        if not async_op:
            self._core.run(name, source, target, root, op, timeout)
            return out
        if timeout is not None:
            raise ValueError("an asynchronous collective has no time-out; Work.wait() has one")
        return Work(self._core.start(name, source, target, root, op), out)


def _memory(x: Any) -> Any:
    """What lends the elements: of a torch tensor that takes part in autograd, its data."""
    torch = sys.modules.get("torch")
    return x.detach() if torch is not None and isinstance(x, torch.Tensor) else x


def _like(x: Any, shape: tuple[int, ...]) -> Any:
    """A new array of the same framework and dtype."""
    if isinstance(x, _core.Tensor):
        return _core.empty(shape, x.dtype)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        return torch.empty(shape, dtype=x.dtype)
    import numpy

    if isinstance(x, numpy.ndarray):
        return numpy.empty(shape, x.dtype)
    raise TypeError(f"out= is needed: there is no way to make one like a {type(x).__name__}")


def create(size: int) -> _core.Tensor:
    """The memory of a new group of that many ranks, to be sent to the processes that ``join()`` it."""
    return _core._create_group(size)


def join(memory: _core.Tensor, rank: int) -> Group:
    """Become a rank of a group that ``create()`` has made."""
    return Group(_core._join_group(memory, rank))


_world: Group | None = None


def group() -> Group:
    """The group of the ranks that were started together with this process.

    ``start_processes``, ``start_ranks`` and ``spawn`` of ``forklift.multiprocessing`` start such ranks.
    NotFoundError: this process is none of them.
    """
    global _world
    if _world is None:
        place = _rank.own_place()
        if place is None:
            raise NotFoundError(
                "this process is no rank of a group: forklift.multiprocessing.start_processes() starts such "
                "ranks, and create() and join() make a group of any processes"
            )
        _world = join(place.memory(), place.rank) if place.make_group is None else place.make_group()
    return _world

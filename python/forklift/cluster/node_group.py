"""Groups of ranks on several nodes: forklift.collectives in the arena of each node, then between nodes.

Each call begins with an agreement: all ranks' calls, as text, go to all ranks. If they differ, or a rank
cannot make its call, all raise and nothing was done. What follows can fail only by the end of a process, the
loss of a node, or a time-out.

Elements are combined in the order of ranks within a node; in which order nodes are is Gloo's matter. All
ranks get the same bits.

Ranks import this module, so it imports no ray.
"""

from __future__ import annotations

import concurrent.futures
import re
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from forklift import _core, collectives
from forklift.cluster.steps import PLAIN, Steps, combine, wide
from forklift.errors import BrokenGroupError, CollectiveMismatchError, PeerDiedError
from forklift.multiprocessing._ranks.rank import Place

__all__ = ["NodePlace", "NodesGroup"]

_TEXT = 256  # bytes of a rank's call in the agreement
_OPS = ("sum", "product", "min", "max", "mean")


class NodePlace:
    """A rank's place in a group on several nodes. See forklift.multiprocessing._ranks.rank.Place."""

    def __init__(self, place: Place, layout: Any, rank: int, queues: Any) -> None:
        self._given = (place, layout, rank, queues)

    def make_group(self) -> collectives.Group:
        """The group; of ranks on one node only, the same as without a cluster."""
        place, layout, rank, queues = self._given
        here = collectives.join(place.memory(), place.rank)
        return here if len(layout.counts) == 1 else NodesGroup(here, layout, rank, queues)


class _Work:
    """As forklift.collectives.Work."""

    def __init__(self, future: concurrent.futures.Future[None], result: Any) -> None:
        self._future = future
        self._result = result

    def done(self) -> bool:
        return self._future.done()

    def wait(self, timeout: float | None = None) -> Any:
        try:
            self._future.result(timeout)
        except concurrent.futures.TimeoutError:
            if self._future.done():
                raise
            raise TimeoutError("the collective is still under way") from None
        return self._result


class NodesGroup(collectives.Group):
    """See the module. ``here``: the group of this node's ranks."""

    def __init__(self, here: collectives.Group, layout: Any, rank: int, queues: Any) -> None:
        self.rank = rank
        self.size = sum(layout.counts)
        self._layout = layout
        self._steps = Steps(here, layout, queues)
        self._thread = concurrent.futures.ThreadPoolExecutor(1, "forklift-collectives")
        self._broken: BaseException | None = None

    def _call(
        self,
        name: str,
        x: Any,
        out: Any,
        root: int,
        op: Any,
        timeout: float | None,
        async_op: bool,
    ) -> Any:
        if async_op and timeout is not None:
            raise ValueError("an asynchronous collective has no time-out; Work.wait() has one")
        future = self._thread.submit(self._run, name, x, out, root, op, timeout)
        if async_op:
            return _Work(future, out)
        future.result()
        return out

    # --- in the thread of the group

    def _run(self, name: str, x: Any, out: Any, root: int, op: Any, timeout: float | None) -> None:
        if self._broken is not None:
            raise type(self._broken)(str(self._broken))
        self._steps.until = None if timeout is None else time.monotonic() + timeout
        problem: BaseException | None = None
        source = target = None
        try:
            source = None if x is None else _elements(x)
            target = source if out is x else None if out is None else _elements(out)
            text = self._check(name, source, target, root, op)
        except Exception as error:
            problem, text = error, f"{name}: {type(error).__name__}: {error}"
        try:
            self._agree(text, problem)
            self._do(name, source, target, root, op)
        except (PeerDiedError, BrokenGroupError, TimeoutError) as error:
            text = self._with_ranks(str(error))
            late = isinstance(error, TimeoutError)
            self._broken = BrokenGroupError(f"rank {self.rank}: {text}") if late else type(error)(text)
            self._steps.give_up(str(self._broken))
            raise type(error)(text) from None

    def _with_ranks(self, text: str) -> str:
        """An error of the node's group with the ranks of the whole group."""
        first = self._layout.ranks()[0]
        if "on node" in text:  # of another node, and with the group's ranks
            return text
        return re.sub(r"rank (\d+)", lambda found: f"rank {first + int(found[1])}", text)

    def _agree(self, text: str, problem: BaseException | None) -> None:
        mine: Any = np.zeros(_TEXT, np.uint8)
        data = (("!" if problem else "=") + text).encode()[:_TEXT]
        mine[: len(data)] = np.frombuffer(data, np.uint8)
        calls = [bytes(each).rstrip(b"\0").decode(errors="replace") for each in self._steps.gather_all(mine)]
        if problem is not None:
            raise problem
        if len(set(calls)) > 1 or calls[0].startswith("!"):
            told = "; ".join(f"rank {rank}: {call[1:]}" for rank, call in enumerate(calls))
            raise CollectiveMismatchError(f"the ranks have called different collectives: {told}")

    def _check(self, name: str, x: Any, out: Any, root: int, op: Any) -> str:
        """Check a call's arguments. Returns what all ranks must have in common, as text."""
        if root >= self.size or root < -1:
            raise ValueError(f"root {root} of a group of {self.size} ranks")
        given = out if name == "scatter" else x
        if given is None:
            return f"{name}()"
        shapes = {
            "gather": (self.size, *given.shape),
            "all_gather": (self.size, *given.shape),
            "reduce_scatter": given.shape[1:],
            "all_to_all": given.shape,
            "scatter": (self.size, *given.shape),
        }
        other = x if name == "scatter" else out
        wanted = shapes.get(name, given.shape)
        if other is not None and (other.shape != wanted or other.dtype != given.dtype):
            raise ValueError(
                f"{name}: {other.dtype} {other.shape} beside {given.dtype} {given.shape}; expected {wanted}"
            )
        if name in ("reduce_scatter", "all_to_all") and given.shape[:1] != (self.size,):
            raise ValueError(f"{name}: the first dimension of {given.shape} is not the {self.size} ranks'")
        if out is not None and not out.flags.writeable:
            raise ValueError("an array that gets a result is read-only")
        if op is None:
            called = ""
        elif callable(op):
            called = ", a function"
        else:
            _check_reduction(op, given.dtype)
            called = f", {op}"
        return f"{name}({given.dtype} {given.shape}{called}{f', root {root}' if root >= 0 else ''})"

    def _do(self, name: str, x: Any, out: Any, root: int, op: Any) -> None:
        steps, rank, size = self._steps, self.rank, self.size
        if name == "broadcast":
            x[...] = steps.broadcast(x, root)
        elif name in ("reduce", "all_reduce", "reduce_scatter"):
            combined = self._combined(x, op)
            if name == "reduce_scatter":
                out[...] = combined[rank]
            elif name == "all_reduce" or rank == root:
                x[...] = combined
        elif name in ("gather", "all_gather"):
            everything = steps.gather_all(x)
            if out is not None:
                out[...] = everything
        elif name == "scatter":
            whole = np.empty((size, *out.shape), out.dtype) if x is None else x
            out[...] = steps.broadcast(whole, root)[rank]
        elif name == "all_to_all":
            out[...] = steps.gather_all(x)[:, rank]

    def _combined(self, x: Any, op: Any) -> Any:
        """All ranks' elements, combined."""
        if callable(op):
            return _folded(self._steps.gather_all(x), op)
        if wide(x.dtype) not in PLAIN:
            return combine(self._steps.gather_all(x), op)
        whole = self._steps.all_reduce(x, "sum" if op == "mean" else op)
        return whole / self.size if op == "mean" else whole


def _elements(x: Any) -> Any:
    """A view of a tensor's elements as an array."""
    if isinstance(x, np.ndarray):
        return x
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        return x.detach().numpy()
    if isinstance(x, _core.Tensor):
        return x.numpy()
    if not hasattr(x, "__dlpack__"):
        kind = "number" if isinstance(x, (int, float, complex)) else type(x).__name__
        raise TypeError(f"a collective takes tensors, not a {kind}")
    return np.from_dlpack(x)


def _check_reduction(op: Any, dtype: Any) -> None:
    kind = dtype.kind
    fits = op in _OPS and not (
        (kind == "b" and op not in ("min", "max"))
        or (kind in "iu" and op == "mean")
        or (kind == "c" and op in ("min", "max"))
    )
    if not fits:
        raise ValueError(f"there is no reduction {op} of {dtype}")


def _folded(everything: Any, function: Callable[[Any, Any], object]) -> Any:
    accumulated = _core.tensor(everything[0])
    for each in everything[1:]:
        function(accumulated, _core.tensor(each))
    return np.array(accumulated.numpy())

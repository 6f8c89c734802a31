"""The steps of which collectives between nodes consist, each in the node's arena and then between nodes.

Every rank of a node makes the same steps. The leader, the first rank of its node, hands the part of its node
to its host, and gives its ranks the outcome before they use it.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from forklift.collectives import Group
from forklift.errors import BrokenGroupError, PeerDiedError
from forklift.objects.frozen import share

__all__ = ["PLAIN", "Steps", "combine", "wide"]

# What the library between nodes can combine, and what others are combined as.
PLAIN = {np.dtype(name) for name in ("float32", "float64", "int32", "int64", "uint8", "int8")}
_WIDE = {
    np.dtype("float16"): np.dtype("float32"),
    np.dtype("bool"): np.dtype("uint8"),
    np.dtype("int16"): np.dtype("int32"),
    np.dtype("uint16"): np.dtype("int32"),
    np.dtype("uint32"): np.dtype("int64"),
}
_OUTCOME = 512  # bytes of the outcome that a leader gives to its ranks
_KINDS: dict[bytes, type[Exception]] = {
    b"died": PeerDiedError,
    b"broken": BrokenGroupError,
    b"late": TimeoutError,
}


def wide(dtype: Any) -> Any:
    """The dtype in which elements are combined."""
    return _WIDE.get(dtype, dtype)


def combine(everything: Any, op: str) -> Any:
    """The rows of an array, combined in their order."""
    if op in ("min", "max"):
        return getattr(np, op)(everything, axis=0)
    total = everything[0].copy()
    for each in everything[1:]:
        total = total * each if op == "product" else total + each
    return total / len(everything) if op == "mean" else total


class Steps:
    """See the module. ``until``: when the call's time is over; None: it takes as long as it takes."""

    def __init__(self, here: Group, layout: Any, queues: Any) -> None:
        self._here = here
        self._layout = layout
        self._requests, self._answers = queues
        self._room: dict[str, Any] = {}
        self.until: float | None = None

    def all_reduce(self, x: Any, op: str) -> Any:
        """All ranks' elements, combined, of x's shape, in `wide` of its dtype; valid until the next step."""
        whole = self._scratch("whole", x.shape, wide(x.dtype))
        if not x.size:
            return whole
        whole[...] = x
        self._here.reduce(whole, 0, op, timeout=self._left())
        self._between("all_reduce", whole.reshape(-1), op)
        self._here.broadcast(whole, 0, timeout=self._left())
        return whole

    def broadcast(self, x: Any, root: int) -> Any:
        """The root's elements, of x's shape and dtype. The array is valid until the next step."""
        whole = self._scratch("whole", x.shape, x.dtype)
        if not x.size:
            return whole
        node = self._layout.node_of(root)
        own = node == self._layout.node
        if own:
            whole[...] = x
            local = self._layout.ranks().index(root)
            self._here.broadcast(_bytes(whole), local, timeout=self._left())
        self._between("broadcast", _bytes(whole), node)
        if not own:
            self._here.broadcast(_bytes(whole), 0, timeout=self._left())
        return whole

    def gather_all(self, x: Any) -> Any:
        """All ranks' elements: an array with a row for each rank, valid until the next step."""
        counts = self._layout.counts
        if not x.size:
            return np.empty((sum(counts), *x.shape), x.dtype)
        mine = self._scratch("whole", x.shape, x.dtype)
        mine[...] = x
        data = _bytes(mine)
        part = self._scratch("part", (max(counts), data.size), np.dtype(np.uint8))
        rows = self._scratch("rows", (len(counts), *part.shape), np.dtype(np.uint8))
        gathered = part[: counts[self._layout.node]] if self._here.rank == 0 else None
        self._here.gather(data, gathered, 0, timeout=self._left())
        self._between("all_gather", part, rows)
        self._here.broadcast(rows, 0, timeout=self._left())
        found = np.concatenate([row[:count] for row, count in zip(rows, counts, strict=True)])
        return found.view(x.dtype).reshape(len(found), *x.shape)

    def _between(self, name: str, *arguments: Any) -> None:
        """The step between nodes, by the leader; all ranks of the node raise what it could not do."""
        outcome: Any = np.zeros(_OUTCOME, np.uint8)
        if self._here.rank == 0:
            kind, words = self._ask(name, *arguments)
            said = f"{kind}:{words}".encode()[:_OUTCOME]
            outcome[: len(said)] = np.frombuffer(said, np.uint8)
        self._here.broadcast(outcome, 0, timeout=self._left(5.0))
        kind_of, _, text = bytes(outcome).rstrip(b"\0").partition(b":")
        if kind_of:
            raise _KINDS[kind_of](text.decode(errors="replace"))

    def _ask(self, name: str, *arguments: Any) -> tuple[str, str]:
        self._requests.put((name, self._left(), *arguments))
        kind, words = self._answers.get()
        return kind, words

    def give_up(self, words: str) -> None:
        """Tell the other nodes that this one makes no more steps."""
        if self._here.rank == 0:
            self._requests.put(("give up", None, words))

    def _left(self, more: float = 0.0) -> float | None:
        return None if self.until is None else max(self.until + more - time.monotonic(), 0.001)

    def _scratch(self, name: str, shape: tuple[int, ...], dtype: Any) -> Any:
        """An array in shared memory, which the next step of this name uses again."""
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        block = self._room.get(name)
        if block is None or block.nbytes < size:
            self._room.pop(name, None)
            block = self._room[name] = share(np.zeros(max(size, 4096), np.uint8))
        return block[:size].view(dtype).reshape(shape)


def _bytes(x: Any) -> Any:
    return x.reshape(-1).view(np.uint8)

"""The other peers of the rows of messages and tasks: `bench/peers` measures them."""

from __future__ import annotations

from collections.abc import Callable

import peers
from peers import exchange, fifo, iceoryx, mpi, pools, shared

from rows.spec import Peer, Scale

Count = Callable[[Scale], int]
FLOOR_NAME = "two processes: raw shared memory, spinning"

_NO_KILL = "a process that is killed stops the other for ever"
_LINKS = (
    ("posix_ipc + mmap", shared.Sleeping, f"a slot's room for each int, one array's room, {_NO_KILL}"),
    ("iceoryx2", iceoryx.Iceoryx, "polling; eight bytes, not pickled"),
    ("faster-fifo", fifo.Fifo, f"everything is pickled, {_NO_KILL}"),
)
_READ_IN_PLACE = "the array is read in place, and the next one overwrites it"
_ARRAYS = {
    "posix_ipc + mmap": f"{_READ_IN_PLACE}; {_NO_KILL}",
    "iceoryx2": "polling; the array is read in place",
    "faster-fifo": "the array is pickled",
    "mpi4py buffers": "polling; received into memory that is there, which the next one overwrites",
    "mpi4py objects": "polling; the array is pickled",
}


def _link(name: str, make: exchange.MakeLink, what: str, count: Count, nbytes: int, words: str) -> Peer:
    def measure(scale: Scale) -> float:
        return exchange.between_processes(make, what, count(scale), scale.nbytes(nbytes))

    return Peer(name, measure, peers.missing(name), words)


def _ranks(kind: str, what: str, count: Count, nbytes: int, words: str) -> Peer:
    def measure(scale: Scale) -> float:
        return mpi.between_ranks(kind, what, count(scale), scale.nbytes(nbytes))

    name = f"mpi4py {kind}"
    return Peer(name, measure, peers.missing(name), words)


def messages(what: str, count: Count) -> tuple[Peer, ...]:
    """Of round trips of an int, or of a flow of them."""
    found = [_link(name, make, what, count, 0, words) for name, make, words in _LINKS]
    if what == "flow":
        found.append(_link("faster-fifo batches", fifo.Batches, what, count, 0, "a hundred at a call"))
    found.append(_ranks("buffers", what, count, 0, "polling; eight bytes, not pickled"))
    found.append(_ranks("objects", what, count, 0, "polling"))
    return tuple(found)


def arrays(nbytes: int, count: Count) -> tuple[Peer, ...]:
    found = [_link(name, make, "array", count, nbytes, _ARRAYS[name]) for name, make, _ in _LINKS]
    found += [_ranks(kind, "array", count, nbytes, _ARRAYS[f"mpi4py {kind}"]) for kind in mpi.ENDS]
    return tuple(found)


def floor(what: str, count: Count, nbytes: int = 0) -> Callable[[Scale], float]:
    """The same between two processes by bare shared memory, both spinning.

    A flow has no such floor: loops of Python's over a ring take longer for a message than our queue does.
    """
    return lambda scale: exchange.between_processes(shared.Spinning, what, count(scale), scale.nbytes(nbytes))


def tasks(what: str, count: Callable[[Scale], int]) -> tuple[Peer, ...]:
    """Of pools: "one", "chunks" or "call"."""
    chunks = "chunks as Pool.map chooses them" if what == "chunks" else ""
    own_chunks = "chunks as it chooses" if what == "chunks" else ""
    ways: tuple[tuple[str, Callable[[str, int], float], str], ...] = (
        ("concurrent.futures", pools.futures, chunks),
        ("loky", pools.loky, chunks),
        ("mpire", pools.mpire, own_chunks),
        ("mpi4py.futures", mpi.pool, f"{chunks}; polling" if chunks else "polling"),
    )

    def measuring(way: Callable[[str, int], float]) -> Callable[[Scale], float]:
        return lambda scale: way(what, count(scale))

    return tuple(Peer(name, measuring(way), peers.missing(name), words) for name, way, words in ways)

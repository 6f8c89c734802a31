"""torch's CPU tensors through a queue: put, received, one byte sent back. The receiver does not read them.

The peer is ``torch.multiprocessing``. Both use their default strategy, file descriptors; in the rows
``torch-vs-fs-...`` torch uses file_system, and in ``torch-fs-...`` both do. A *fresh* tensor is made
and written for each message, outside of the measured time; a *shared* one has been sent before. The byte
comes back through a Pipe of the same library.
"""

from __future__ import annotations

import dataclasses
import mmap
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

from rows.spec import OURS, Library, Row, Scale

PEER = "torch.multiprocessing"
# From the second transfer on, the memory that the first freed is reused. The kernel may run both processes
# on one processor for a while, though another is idle: then neither spins, and a transfer of 3 us takes 14.
WARM_UP = 3
WARM_UP_S = 0.03


def _receive(queue: Any, ack: Any) -> None:
    while queue.get() is not None:
        ack.send_bytes(b"x")


def _transfer_us(library: Library, make: Callable[[], Any], count: int) -> float:
    context = library.context()
    queue = context.Queue()
    heard, ack = context.Pipe()
    reader = context.Process(target=_receive, args=(queue, ack))
    reader.start()

    def transfer() -> float:
        value = make()
        begin = time.perf_counter()
        queue.put(value)
        heard.recv_bytes()
        return time.perf_counter() - begin

    warm = time.perf_counter() + WARM_UP_S
    done = 0
    while done < WARM_UP or time.perf_counter() < warm:
        transfer()
        done += 1
    times = [transfer() for _ in range(count)]
    queue.put(None)
    reader.join()
    if reader.exitcode != 0:
        raise RuntimeError(f"the reader ended with {reader.exitcode}")
    return statistics.median(times) * 1e6


def _fresh(nbytes: int) -> Any:
    import torch

    return torch.ones(nbytes // 4)


def _fresh_row(name: str, nbytes: int, count: int, goal: float) -> Row:
    def measure(library: Library, scale: Scale) -> float:
        return _transfer_us(library, lambda: _fresh(nbytes), scale.count(count, min(count, 3)))

    return Row(f"torch-fresh-{name}", "us", goal, measure=measure, peer=PEER)


def _shared_row(name: str, nbytes: int) -> Row:
    def measure(library: Library, scale: Scale) -> float:
        tensor = _fresh(nbytes)
        return _transfer_us(library, lambda: tensor, scale.count(200))

    return Row(f"torch-shared-{name}", "us", 20, measure=measure, peer=PEER)


def _named(row: Row, ours_too: bool) -> Row:
    """The same row with torch's strategy file_system."""
    measure = row.measure
    assert measure is not None

    def measure_named(library: Library, scale: Scale) -> float:
        if ours_too or library.name != OURS:
            library.module.set_sharing_strategy("file_system")
        return measure(library, scale)

    changed = dataclasses.replace(row, measure=measure_named)
    if not ours_too:
        name = row.name.replace("torch-", "torch-vs-fs-")
        return dataclasses.replace(changed, name=name, note="torch's strategy is file_system")
    changed = dataclasses.replace(
        changed, name=row.name.replace("torch-", "torch-fs-"), goal=1, note="both with file_system"
    )
    if row.name not in _FILES:
        return changed
    files, nbytes = _FILES[row.name]
    return dataclasses.replace(
        changed,
        floor=lambda scale: _files_us(files, nbytes, scale.count(20, 3)),
        floor_name="as many files of this size made, written, mapped and removed",
    )


def _files_us(files: int, nbytes: int, count: int) -> float:
    """What the kernel takes for the files of one message, in one process."""
    data = bytes(nbytes)
    folder = tempfile.mkdtemp(prefix="forklift-bench-", dir="/dev/shm")
    path = os.path.join(folder, "file")
    times = []
    for _ in range(count):
        begin = time.perf_counter()
        for _ in range(files):
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
            os.pwrite(file, data, 0)
            mapped = mmap.mmap(file, nbytes)
            os.close(file)
            os.unlink(path)
            mapped.close()
        times.append(time.perf_counter() - begin)
    os.rmdir(folder)
    return statistics.median(times) * 1e6


def _list100(library: Library, scale: Scale) -> float:
    return _transfer_us(library, lambda: [_fresh(4 << 10) for _ in range(100)], scale.count(30, 3))


def _state_dict() -> dict[str, Any]:
    """200 MB in 300 tensors: as in a network, few of them have most of it."""
    large = {f"layers.{i}.weight": _fresh(3_400_000) for i in range(58)}
    small = {f"layers.{i}.bias": _fresh(11_600) for i in range(242)}
    return large | small


def _state_dicts(library: Library, scale: Scale) -> float:
    return _transfer_us(library, _state_dict, scale.count(10, 3))


def _nothing(rank: int) -> None:
    pass


def _spawn_8(library: Library, scale: Scale) -> float:
    """Milliseconds of eight fresh interpreters that do nothing. This process has imported torch."""
    import torch

    torch.zeros(1)
    times = []
    for _ in range(scale.count(3, 1)):
        begin = time.perf_counter()
        library.module.spawn(_nothing, nprocs=8)
        times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1e3


# How many files, and of what size, a row's message makes under file_system.
_FILES = {
    "torch-fresh-4K": (1, 4 << 10),
    "torch-fresh-64K": (1, 64 << 10),
    "torch-fresh-1M": (1, 1 << 20),
    "torch-fresh-16M": (1, 16 << 20),
    "torch-fresh-256M": (1, 256 << 20),
    "torch-list100": (100, 4 << 10),
    "torch-state-dict": (58, 3_400_000 * 4),
}
_TENSORS = (
    _fresh_row("4K", 4 << 10, 300, 20),
    _fresh_row("64K", 64 << 10, 300, 20),
    _fresh_row("1M", 1 << 20, 100, 8),
    _fresh_row("16M", 16 << 20, 20, 5),
    _fresh_row("256M", 256 << 20, 4, 5),
    _shared_row("4K", 4 << 10),
    _shared_row("256M", 256 << 20),
    Row("torch-list100", "us", 50, measure=_list100, peer=PEER),
    Row("torch-state-dict", "us", 10, measure=_state_dicts, peer=PEER),
)
ROWS = (
    *_TENSORS,
    *(_named(row, ours_too=False) for row in _TENSORS),
    *(_named(row, ours_too=True) for row in _TENSORS),
    Row(
        "spawn-8",
        "ms",
        3,
        measure=_spawn_8,
        peer=PEER,
        note="ranks that do nothing; torch's import torch, ours do not unless the program's modules do",
    ),
)

"""torch's CPU tensors through a queue: put, received, one byte sent back. The receiver does not read them.

The peer is ``torch.multiprocessing`` with the same strategy: ``torch-fs-...`` are the rows of file_system, the
others those of the default, file descriptors. A *fresh* tensor is made
and written for each message, outside of the measured time; a *shared* one has been sent before. The byte
comes back through a Pipe of the same library.
"""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable
from typing import Any

from rows.spec import Library, Row, Scale

PEER = "torch.multiprocessing"
# From the second transfer on, the memory that the first one freed is reused.
WARM_UP = 3


def _receive(queue: Any, ack: Any, count: int) -> None:
    for _ in range(count):
        value = queue.get()
        if value is None:
            raise ValueError("nothing arrived")
        del value
        ack.send_bytes(b"x")


def _transfer_us(library: Library, make: Callable[[], Any], count: int) -> float:
    context = library.context()
    queue = context.Queue()
    heard, ack = context.Pipe()
    reader = context.Process(target=_receive, args=(queue, ack, WARM_UP + count))
    reader.start()
    times = []
    for i in range(-WARM_UP, count):
        value = make()
        begin = time.perf_counter()
        queue.put(value)
        heard.recv_bytes()
        if i >= 0:
            times.append(time.perf_counter() - begin)
        del value
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


def _with_files(row: Row) -> Row:
    """The same row under the strategy file_system."""
    measure = row.measure
    assert measure is not None

    def measure_with_files(library: Library, scale: Scale) -> float:
        module = library.module
        before = module.get_sharing_strategy()
        module.set_sharing_strategy("file_system")
        try:
            return measure(library, scale)
        finally:
            module.set_sharing_strategy(before)

    return dataclasses.replace(
        row, name=row.name.replace("torch-", "torch-fs-"), measure=measure_with_files, note="file_system"
    )


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
    *(_with_files(row) for row in _TENSORS),
    Row(
        "spawn-8",
        "ms",
        3,
        measure=_spawn_8,
        peer=PEER,
        repeat=3,
        note="ranks that do nothing; torch's import torch, ours do not unless the program's modules do",
    ),
)

"""Tensors on a GPU: `bench/device.py` measures these rows, and `bench/run.py` does not have them.

A tensor is put, received, and one byte sent back through a Pipe of the same library; the receiver does not
read it. The first message after a pause of a millisecond takes two to three times as long as others, of any
size, and making a large tensor is such a pause. So a tensor of 4 KB of the same kind is sent before,
unmeasured; and where a large tensor is compared with a small one, a large one is made before the small
one, too.

The processes are spawned. Ours are `forklift.Tensor` in Forklift's device memory, or, in the rows
``device-torch-...``, torch's tensors; the peer's are always torch's. A *fresh* tensor is made for each
message, outside of the measured time; a *shared* one has been sent before.
"""

from __future__ import annotations

import atexit
import statistics
import time
from collections.abc import Callable
from typing import Any

from rows import device_memory, loaders
from rows.device_memory import PEER, finish, make
from rows.spec import OURS, Library, Row, Scale

WARM_UP = 3
SIZES = {"4K": (4 << 10, 300), "1M": (1 << 20, 300), "64M": (64 << 20, 50), "1G": (1 << 30, 10)}
SMALL = 100_000

# --- hand-over


def _receive(queue: Any, ack: Any) -> None:
    while True:
        value = queue.get()
        if isinstance(value, str):
            return
        del value
        ack.send_bytes(b"x")


class _Receiver:
    """A process that receives what is put, and says so. One for all rows of a library."""

    def __init__(self, library: Library) -> None:
        context = library.context("spawn")
        self._queue = context.Queue()
        self._heard, ack = context.Pipe()
        self._process = context.Process(target=_receive, args=(self._queue, ack))
        self._process.start()
        ack.close()

    def hand_over(self, value: Any) -> float:
        """Seconds until it has arrived."""
        begin = time.perf_counter()
        self._queue.put(value)
        self._heard.recv_bytes()
        return time.perf_counter() - begin

    def end(self) -> None:
        self._queue.put("end")
        finish(self._process)


_receivers: dict[str, _Receiver] = {}


def _receiver(library: Library) -> _Receiver:
    if library.name not in _receivers:
        _receivers[library.name] = receiver = _Receiver(library)
        atexit.register(receiver.end)
    return _receivers[library.name]


def _transfer_us(library: Library, source: Callable[[], Any], small: Any, count: int) -> float:
    receiver = _receiver(library)
    times = []
    for i in range(-WARM_UP, count):
        value = source()
        receiver.hand_over(small)
        seconds = receiver.hand_over(value)
        if i >= 0:
            times.append(seconds)
        del value
    return statistics.median(times) * 1e6


def _of(kind: str, size: str, of_torch: bool, sent: str) -> Callable[[Library, Scale], float]:
    """Tensors of the size `sent`, each after one of `size` was made: the same pauses, whatever is sent."""

    def measure(library: Library, scale: Scale) -> float:
        def new(size: str) -> Any:
            return make(library, scale.nbytes(SIZES[size][0]), of_torch)

        def after_another() -> Any:
            new(size)
            return new(sent)

        small = new("4K")
        if kind == "shared":
            known = new(sent)
            return _transfer_us(library, lambda: known, small, scale.count(300, 3))
        source = after_another if sent != size else lambda: new(sent)
        return _transfer_us(library, source, small, scale.count(SIZES[size][1], 3))

    return measure


def _as_floor(measure: Callable[[Library, Scale], float]) -> Callable[[Scale], float]:
    def floor(scale: Scale) -> float:
        import forklift.multiprocessing

        return measure(Library(OURS, forklift.multiprocessing), scale)

    return floor


def _hand_over(kind: str, size: str, of_torch: bool) -> Row:
    row = f"device-{'torch-' if of_torch else ''}{kind}"
    measure = _of(kind, size, of_torch, size)
    if size == "4K":
        return Row(f"{row}-{size}", "us", 10, measure=measure, peer=PEER)
    return Row(
        f"{row}-{size}",
        "us",
        10,
        measure=measure,
        peer=PEER,
        floor=_as_floor(_of(kind, size, of_torch, "4K")),
        floor_name="the same with 4 KB",
        floor_factor=1.5,
    )


# --- many


def _drop(queue: Any, ack: Any, count: int) -> None:
    queue.get()
    ack.send_bytes(b"x")
    for _ in range(count):
        queue.get()
    ack.send_bytes(b"x")


def _many(library: Library, scale: Scale) -> float:
    """Thousands of tensors a second, all of them different ones, until the last is received."""
    count = scale.count(SMALL, 30)
    tensors = [make(library, 4 << 10, False) for _ in range(count + 1)]
    context = library.context("spawn")
    queue = context.Queue()
    heard, ack = context.Pipe()
    reader = context.Process(target=_drop, args=(queue, ack, count))
    reader.start()
    queue.put(tensors.pop())
    heard.recv_bytes()  # the reader has opened the device
    begin = time.perf_counter()
    for tensor in tensors:
        queue.put(tensor)
    heard.recv_bytes()
    seconds = time.perf_counter() - begin
    finish(reader)
    return count / seconds / 1e3


# --- a DataLoader whose batches go to the GPU


def _loader(size: str) -> Callable[[Library, Scale], float]:
    def measure(library: Library, scale: Scale) -> float:
        import torch

        nbytes, batch, count = loaders.SIZES[size]
        kind = library.module.DataLoader if library.name == loaders.OWN else torch.utils.data.DataLoader
        loader = kind(
            loaders.Samples(nbytes, batch * scale.count(count, 20)),
            batch_size=batch,
            shuffle=True,
            num_workers=loaders.WORKERS,
            persistent_workers=True,
            pin_memory=True,
        )
        for _ in range(2):  # the workers are there, and memory is warm, in the second epoch
            begin = time.perf_counter()
            for samples, _ in loader:
                samples.to("cuda", non_blocking=True)
            torch.cuda.synchronize()
        return len(loader) / (time.perf_counter() - begin)

    return measure


OWN = (
    *(_hand_over(kind, size, False) for kind in ("fresh", "shared") for size in SIZES),
    Row("device-small-100k", "k/s", 10, more_is_better=True, measure=_many, peer=PEER, repeat=3),
    *device_memory.ROWS,
)
# Those that mean nothing without torch for CUDA.
OF_TORCH = (
    *(_hand_over(kind, size, True) for kind in ("fresh", "shared") for size in SIZES),
    *(
        Row(
            f"device-loader-{size}",
            "batches/s",
            2,
            more_is_better=True,
            measure=_loader(size),
            ours=loaders.OWN,
            peer=loaders.PEER,
            repeat=3,
            note="pin_memory=True, two workers, each batch copied to the GPU",
        )
        for size in loaders.SIZES
    ),
)
ROWS = (*OWN, *OF_TORCH)

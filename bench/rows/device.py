"""Tensors on a GPU: `bench/device.py` measures these rows, and `bench/run.py` does not have them.

A tensor is put, received, and one byte sent back through a Pipe of the same library; the receiver does not
read it. An int is sent before, since making a large tensor takes so long that the receiver may fall asleep.
The processes are spawned. Ours are `forklift.Tensor` in Forklift's device memory, or, in the rows
``device-torch-...``, torch's tensors; the peer's are always torch's. A *fresh* tensor is made for each
message, outside of the measured time; a *shared* one has been sent before.
"""

from __future__ import annotations

import atexit
import functools
import statistics
import threading
import time
from collections.abc import Callable
from typing import Any

from rows import loaders
from rows.spec import OURS, Library, Row, Scale

PEER = "torch.multiprocessing"
WARM_UP = 3
SIZES = {"4K": (4 << 10, 300), "1M": (1 << 20, 300), "64M": (64 << 20, 50), "1G": (1 << 30, 10)}
SMALL = 100_000
LARGE = 64 << 20
COPIED = 256 << 20
MEGABYTE = 1e6

# --- what is sent


@functools.lru_cache(maxsize=1)
def _source(nbytes: int) -> Any:
    """On the CPU, in the arena. One at a time: those of the largest rows are a gigabyte."""
    import forklift

    made = forklift.empty([nbytes // 4])
    made.fill(1)
    return made


def _make(library: Library, nbytes: int, of_torch: bool) -> Any:
    if of_torch or library.name == PEER:
        import torch

        made = torch.ones(nbytes // 4, device="cuda")
        torch.cuda.synchronize()
        return made
    import forklift

    # Filled on the device, as the peer's: a copy from the CPU would let the receiver fall asleep meanwhile.
    forklift.context.set_context(device_target="GPU")
    try:
        tensor = forklift.empty([nbytes // 4])
        tensor.fill(1)
        float(tensor[0])  # waits for it
    finally:
        forklift.context.set_context(device_target="CPU")
    return tensor


# --- hand-over


def _receive(queue: Any, ack: Any) -> None:
    while True:
        value = queue.get()
        if isinstance(value, str):
            return
        del value
        ack.send_bytes(b"x")


def _finish(reader: Any) -> None:
    reader.join()
    if reader.exitcode != 0:
        raise RuntimeError(f"a process ended with {reader.exitcode}")


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
        _finish(self._process)


_receivers: dict[str, _Receiver] = {}


def _receiver(library: Library) -> _Receiver:
    if library.name not in _receivers:
        _receivers[library.name] = receiver = _Receiver(library)
        atexit.register(receiver.end)
    return _receivers[library.name]


def _transfer_us(library: Library, make: Callable[[], Any], count: int) -> float:
    receiver = _receiver(library)
    times = []
    for i in range(-WARM_UP, count):
        value = make()
        receiver.hand_over(0)  # it may have fallen asleep
        seconds = receiver.hand_over(value)
        if i >= 0:
            times.append(seconds)
        del value
    return statistics.median(times) * 1e6


def _fresh(size: str, of_torch: bool) -> Callable[[Library, Scale], float]:
    nbytes, count = SIZES[size]

    def measure(library: Library, scale: Scale) -> float:
        return _transfer_us(
            library, lambda: _make(library, scale.nbytes(nbytes), of_torch), scale.count(count, 3)
        )

    return measure


def _shared(size: str, of_torch: bool) -> Callable[[Library, Scale], float]:
    nbytes, _ = SIZES[size]

    def measure(library: Library, scale: Scale) -> float:
        tensor = _make(library, scale.nbytes(nbytes), of_torch)
        return _transfer_us(library, lambda: tensor, scale.count(300, 3))

    return measure


def _as_floor(measure: Callable[[Library, Scale], float]) -> Callable[[Scale], float]:
    def floor(scale: Scale) -> float:
        import forklift.multiprocessing

        return measure(Library(OURS, forklift.multiprocessing), scale)

    return floor


def _hand_over(kind: str, size: str, of_torch: bool) -> Row:
    measure = {"fresh": _fresh, "shared": _shared}[kind]
    row = f"device-{'torch-' if of_torch else ''}{kind}"
    if size == "4K":
        return Row(f"{row}-{size}", "us", 10, measure=measure(size, of_torch), peer=PEER)
    return Row(
        f"{row}-{size}",
        "us",
        10,
        measure=measure(size, of_torch),
        peer=PEER,
        floor=_as_floor(measure("4K", of_torch)),
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
    tensors = [_make(library, 4 << 10, False) for _ in range(count + 1)]
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
    _finish(reader)
    return count / seconds / 1e3


def _produce(queue: Any, go: Any, nbytes: int, count: int) -> None:
    source = _source(nbytes)
    source.to("GPU")  # opens the device
    go.send_bytes(b"x")
    go.recv_bytes()
    for _ in range(count):
        queue.put(source.to("GPU"))


def _consume(queue: Any, go: Any, count: int) -> None:
    import forklift

    forklift.Tensor([1.0]).to("GPU")
    go.send_bytes(b"x")
    for _ in range(count):
        queue.get()


class _Peak(threading.Thread):
    """Looks at the device's memory all the time."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.bytes = 0
        self._end = threading.Event()

    def run(self) -> None:
        from gpu_driver import Cuda

        device = Cuda()  # the context is a thread's
        while not self._end.wait(0.002):
            free, total = device.memory()
            self.bytes = max(self.bytes, total - free)

    def stop(self) -> int:
        self._end.set()
        self.join()
        return self.bytes


@functools.lru_cache(maxsize=1)
def _flood(library: Library, scale: Scale) -> tuple[float, float]:
    """Megabytes of the device: the most beyond the beginning, with both processes there, and what is left.

    Both rows are of one run.
    """
    from gpu_driver import Cuda

    nbytes, count = scale.nbytes(LARGE), scale.count(1000, 10)
    context = library.context("spawn")
    queue = context.Queue(2)
    device = Cuda()
    free, total = device.memory()
    before = total - free
    pipes = [context.Pipe() for _ in range(2)]
    producer = context.Process(target=_produce, args=(queue, pipes[0][1], nbytes, count))
    consumer = context.Process(target=_consume, args=(queue, pipes[1][1], count))
    producer.start()
    consumer.start()
    for here, _ in pipes:
        here.recv_bytes()
    free, total = device.memory()
    ready = total - free
    peak = _Peak()
    peak.start()
    pipes[0][0].send_bytes(b"x")
    _finish(producer)
    _finish(consumer)
    most = peak.stop()
    # The broker hears of the end of a pool at once, or within half a second.
    deadline = time.monotonic() + 5
    while True:
        free, total = device.memory()
        if total - free <= before or time.monotonic() > deadline:
            break
        time.sleep(0.01)
    return max(0, most - ready) / MEGABYTE, max(0, total - free - before) / MEGABYTE


# --- bandwidth


def _read_there(queue: Any, answer: Any, count: int) -> None:
    from gpu_driver import Cuda, address_of

    tensor = queue.get()
    device = Cuda()
    source, to = address_of(tensor), device.allocate(tensor.nbytes)
    answer.send(
        device.gigabytes_per_second(
            lambda: device.copy_within(to, source, tensor.nbytes), tensor.nbytes, count
        )
    )


def _received(library: Library, scale: Scale) -> float:
    context = library.context("spawn")
    queue = context.Queue()
    heard, answer = context.Pipe()
    reader = context.Process(target=_read_there, args=(queue, answer, scale.count(100, 3)))
    reader.start()
    queue.put(_make(library, scale.nbytes(COPIED), False))
    rate = float(heard.recv())
    _finish(reader)
    return rate


def _local(scale: Scale) -> float:
    from gpu_driver import Cuda

    nbytes = scale.nbytes(COPIED)
    device = Cuda()
    source, to = device.allocate(nbytes), device.allocate(nbytes)
    return device.gigabytes_per_second(
        lambda: device.copy_within(to, source, nbytes), nbytes, scale.count(100, 3)
    )


def _to_device(library: Library, scale: Scale) -> float:
    nbytes, count = scale.nbytes(COPIED), scale.count(20, 3)
    here = _source(nbytes)
    here.to("GPU")
    begin = time.perf_counter()
    for _ in range(count):
        here.to("GPU")
    return nbytes * count / (time.perf_counter() - begin) / 1e9


def _from_pinned(scale: Scale) -> float:
    from gpu_driver import Cuda

    nbytes = scale.nbytes(COPIED)
    device = Cuda()
    host, to = device.pinned(nbytes), device.allocate(nbytes)
    return device.gigabytes_per_second(
        lambda: device.copy_to_device(to, host, nbytes), nbytes, scale.count(20, 3)
    )


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
    Row(
        "device-flat-peak",
        "MB",
        measure=lambda library, scale: _flood(library, scale)[0],
        peer="",
        at_most=6 * LARGE / MEGABYTE,
        repeat=1,
        note="1,000 tensors of 64 MB, two in the queue at most: memory of the device beyond the beginning",
    ),
    Row(
        "device-flat-left",
        "MB",
        measure=lambda library, scale: _flood(library, scale)[1],
        peer="",
        at_most=2,
        repeat=1,
        note="after the same, when both processes have ended",
    ),
    Row(
        "device-read-received",
        "GB/s",
        more_is_better=True,
        measure=_received,
        floor=_local,
        floor_name="a copy of the process's own memory",
        floor_factor=0.95,
        peer="",
        note="a copy on the device of 256 MB that another process has made",
    ),
    Row(
        "device-from-arena",
        "GB/s",
        more_is_better=True,
        measure=_to_device,
        floor=_from_pinned,
        floor_name="the same bytes from cuMemHostAlloc's memory",
        floor_factor=0.95,
        peer="",
        note='Tensor.to("GPU") of 256 MB in the arena, the allocation included',
    ),
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

"""Memory of a GPU: what thousands of messages take of it and leave, and how fast it is read and written.

These rows are of `bench/device.py`, as those of `rows.device`.
"""

from __future__ import annotations

import functools
import threading
import time
from typing import Any

from rows.spec import Library, Row, Scale

PEER = "torch.multiprocessing"
LARGE = 64 << 20
COPIED = 256 << 20
MEGABYTE = 1e6

# --- tensors and processes


@functools.lru_cache(maxsize=1)
def source(nbytes: int) -> Any:
    """On the CPU, in the arena. One at a time: those of the largest rows are a gigabyte."""
    import forklift

    made = forklift.empty([nbytes // 4])
    made.fill(1)
    return made


def make(library: Library, nbytes: int, of_torch: bool) -> Any:
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


def finish(reader: Any) -> None:
    reader.join()
    if reader.exitcode != 0:
        raise RuntimeError(f"a process ended with {reader.exitcode}")


# --- what stays


def _produce(queue: Any, go: Any, nbytes: int, count: int) -> None:
    here = source(nbytes)
    here.to("GPU")  # opens the device
    go.send_bytes(b"x")
    go.recv_bytes()
    for _ in range(count):
        queue.put(here.to("GPU"))


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
    finish(producer)
    finish(consumer)
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
    queue.put(make(library, scale.nbytes(COPIED), False))
    rate = float(heard.recv())
    finish(reader)
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
    here = source(nbytes)
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


ROWS = (
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

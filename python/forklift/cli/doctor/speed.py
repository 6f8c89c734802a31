"""How fast this machine is where Forklift depends on it, beside what Forklift takes."""

from __future__ import annotations

import mmap
import os
import statistics
import time
from collections.abc import Callable, Iterator

from forklift.cli.doctor.finding import Finding, good, note

__all__ = ["speed"]

_COPIED = 64 << 20
_STOP = 255


def speed() -> Iterator[Finding]:
    """Copying, wake-ups, the distance of two processors, and a message there and back."""
    rate = _copy_rate()
    yield good("speed", "copy", f"{rate / 1e9:.1f} GB/s within one process", rate)
    wake = _wake_up()
    yield good("speed", "wake-up", f"{wake * 1e6:.1f} us from a write to a pipe until its reader runs", wake)
    apart = _distance()
    if apart is not None:
        yield good(
            "speed", "distance", f"{apart * 1e9:.0f} ns for a byte in shared memory there and back", apart
        )
    ours = _round_trip()
    text = f"{ours * 1e6:.1f} us for a message to a process and back, through two queues"
    if ours > 4 * wake:
        yield note("speed", "message", text, "other programs want the processors, or there is one only")
    else:
        yield good("speed", "message", text, ours)


def _copy_rate() -> float:
    source = bytearray(os.urandom(1 << 16)) * (_COPIED >> 16)
    target = bytearray(_COPIED)
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        memoryview(target)[:] = source
        times.append(time.perf_counter() - begin)
    return _COPIED / min(times)


def _in_child(run: Callable[[], None]) -> int:
    child = os.fork()
    if child == 0:
        try:
            run()
        finally:
            os._exit(0)
    return child


def _wake_up() -> float:
    there, back = os.pipe(), os.pipe()

    def echo() -> None:
        os.close(there[1])
        while os.read(there[0], 1):
            os.write(back[1], b"x")

    child = _in_child(echo)
    times = []
    for _ in range(300):
        begin = time.perf_counter()
        os.write(there[1], b"x")
        os.read(back[0], 1)
        times.append((time.perf_counter() - begin) / 2)
    os.close(there[1])
    os.waitpid(child, 0)
    for end in (there[0], *back):
        os.close(end)
    return statistics.median(times)


def _distance() -> float | None:
    """Two processes that spin on a byte of the other's; None with one processor."""
    if len(os.sched_getaffinity(0)) < 2:
        return None
    memory = mmap.mmap(-1, 8192)

    def echo() -> None:
        seen = 0
        while seen != _STOP:
            now = memory[0]
            if now != seen:
                memory[4096] = seen = now

    child = _in_child(echo)
    best = float("inf")
    deadline = time.perf_counter() + 1.0
    value = 0
    while time.perf_counter() < deadline:
        begin = time.perf_counter()
        for _ in range(200):
            value = 1 if value == 2 else 2
            memory[0] = value
            while memory[4096] != value:
                pass
        best = min(best, (time.perf_counter() - begin) / 200)
    memory[0] = _STOP
    os.waitpid(child, 0)
    memory.close()
    return best


def _answer(queue: object, back: object) -> None:
    while True:
        value = queue.get()  # type: ignore[attr-defined]
        back.put(value)  # type: ignore[attr-defined]
        if value is None:
            return


def _round_trip() -> float:
    import forklift.multiprocessing as mp

    context = mp.get_context("fork")
    queue, back = context.Queue(), context.Queue()
    child = context.Process(target=_answer, args=(queue, back))
    child.start()
    times = []
    for number in range(3000):
        begin = time.perf_counter()
        queue.put(number)
        back.get()
        times.append(time.perf_counter() - begin)
    queue.put(None)
    back.get()
    child.join()
    return statistics.median(times)

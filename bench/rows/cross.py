"""A tensor of 256 MB from Python to a C++ program and back: half of the time, so one crossing.

Ours travels as a handle, both ways, through two `PortableQueue`s; the C++ program writes one element of the
same memory each time, which is checked. The peer is what one would do without Forklift: it sends the bytes
through the program's pipes. The program is bench/echo, which `make core` builds.
"""

from __future__ import annotations

import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rows.spec import OURS, Library, Row, Scale

PROGRAM = Path(__file__).resolve().parents[2] / "build" / "release" / "bench" / "forklift_bench_echo"
ELEMENTS = (256 << 20) // 4


def _crossing_us(there_and_back: Callable[[], float], count: int, warm_up: int) -> float:
    times = []
    for i in range(-warm_up, count):
        begin = time.perf_counter()
        first = there_and_back()
        if i >= 0:
            times.append(time.perf_counter() - begin)
        if first != i + warm_up + 1:
            raise RuntimeError(f"after {i + warm_up + 1} crossings the first element is {first}")
    return statistics.median(times) / 2 * 1e6


def _ours(scale: Scale) -> float:
    import forklift

    there, back = forklift.PortableQueue(), forklift.PortableQueue(tensors=True)
    program = forklift.Program([PROGRAM], channels={"there": there, "back": back})
    tensor = forklift.zeros([ELEMENTS])

    def there_and_back() -> float:
        there.put(tensor)
        return float(back.get(timeout=30)[0])

    value = _crossing_us(there_and_back, scale.count(5_000, 100), 100)
    there.put(forklift.empty([0]))
    if program.wait(timeout=30) != 0:
        raise RuntimeError(f"the program ended with {program.returncode}")
    return value


def _pipes(scale: Scale) -> float:
    import numpy as np

    array: Any = np.zeros(ELEMENTS, np.float32)
    program = subprocess.Popen(
        [str(PROGRAM), str(array.nbytes)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    )
    assert program.stdin is not None
    assert program.stdout is not None
    there, back = program.stdin, program.stdout

    def there_and_back() -> float:
        view = memoryview(array).cast("B")
        # The program sends nothing before it has received everything, so there is no deadlock.
        sent = 0
        while sent < len(view):
            sent += there.write(view[sent:])
        got = 0
        while got < len(view):
            got += back.readinto(view[got:])  # type: ignore[attr-defined]
        return float(array[0])

    value = _crossing_us(there_and_back, scale.count(3, 1), 1)
    there.close()
    program.wait(30)
    back.close()
    return value


def cross_256m(library: Library, scale: Scale) -> float:
    return _ours(scale) if library.name == OURS else _pipes(scale)


ROWS = (
    Row(
        "cross-256M",
        "us",
        at_most=20,
        measure=cross_256m,
        peer="subprocess",
        note="Python to C++ and back, halved; the peer sends the bytes through pipes",
    ),
)

"""Functions that tasks run on the nodes; workers import them by name."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import forklift
import numpy as np


def same(x: Any) -> Any:
    return x


def alive(pid: int) -> bool:
    try:
        return "(zombie)" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def ancestors(pid: int) -> Iterator[int]:
    """The process, its parent, and so on."""
    while pid > 1:
        yield pid
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def agent_of(seconds: float = 0.0) -> int:
    """The process id of the node's agent."""
    time.sleep(seconds)
    return os.getppid()


def mark(turn: tuple[str, int, float]) -> int:
    """Note in a file that the task has begun, and take some time."""
    folder, number, seconds = turn
    with open(Path(folder) / str(number), "a") as file:
        file.write("x")
    time.sleep(seconds)
    return number


def sign(turn: tuple[str, int, float]) -> int:
    """Note in a file which process has begun the task, wait for the file FOLDER.go, and take some time."""
    folder, number, seconds = turn
    with open(Path(folder) / str(number), "a") as file:
        file.write(f"{os.getpid()}\n")
    until = time.monotonic() + 120
    while not os.path.exists(folder + ".go") and time.monotonic() < until:
        time.sleep(0.01)
    time.sleep(seconds)
    return number


def total(turn: tuple[Any, int]) -> tuple[float, bool]:
    array, factor = turn
    return float(array.sum()) * factor, array.flags.writeable


def block_of(turn: tuple[Any, int]) -> tuple[int, int]:
    """The worker, and the block of shared memory in which its argument lies; -1: in none."""
    array, _ = turn
    time.sleep(0.05)
    base = array
    while isinstance(base, np.ndarray):
        base = base.base
    while isinstance(base, memoryview):
        base = base.obj
    if isinstance(base, np.ndarray):
        return block_of((base, 0))
    return os.getpid(), int(forklift._core.block_address(base)) if base is not None else -1


def look_up(turn: tuple[Any, str]) -> Any:
    table, key = turn
    return type(table).__name__, table[key]


def change(array: Any) -> Any:
    array[0] = 7
    return array


def nap(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def large_after(seconds: float) -> bytes:
    time.sleep(seconds)
    return bytes(1 << 20)


def sevens(count: int) -> Any:
    import numpy as np

    return np.full(count, 7, np.uint8)


def nbytes(array: Any) -> int:
    return int(array.nbytes)


def use_domain(_: Any = None) -> int:
    return int(forklift.stats()["processes"])


class Point:
    def __init__(self, x: int) -> None:
        self.x = x

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Point) and other.x == self.x

    def __hash__(self) -> int:
        return hash(self.x)


kept: list[Any] = []


def keep(*objects: Any) -> None:
    kept[:] = objects


def take_and_put(outbox: Any) -> int:
    number: int = kept[0].get(timeout=30)["number"]
    outbox.put(number * number)
    return number


def wait_for(both: Any) -> int:
    event, barrier = both
    assert event.wait(30)
    place: int = barrier.wait(30)
    return place


def try_to_acquire(lock: Any) -> bool:
    taken: bool = lock.acquire(False)
    if taken:
        lock.release()
    return taken


def notify(condition: Any) -> None:
    with condition:
        condition.notify_all()


def acquire_and_die(lock: Any) -> None:
    lock.acquire()
    os.kill(os.getpid(), signal.SIGKILL)


def enter(turn: tuple[Any, int]) -> None:
    shared, number = turn
    shared[number] = number * number


def report(outbox: Any, word: str) -> None:
    outbox.put((os.getpid(), multiprocessing.current_process().name, word))


def leave(code: int) -> None:
    sys.exit(code)


def write_rank(rank: int, folder: str) -> None:
    (Path(folder) / f"rank-{rank}").touch()


def fail_at_one(rank: int) -> None:
    if rank == 1:
        raise ValueError("rank one fails")
    time.sleep(300)

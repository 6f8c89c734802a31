"""What children do in the tests of tests/python/fork."""

from __future__ import annotations

import threading
import time
from typing import Any


def nothing() -> None:
    pass


def put(queue: Any, value: Any) -> None:
    queue.put(value)


def lock_twice() -> None:
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def lock_twice_beside_a_thread() -> None:
    """The main thread and another one wait for each other."""
    locks = threading.Lock(), threading.Lock()
    both = threading.Barrier(2)

    def take(first: int, second: int) -> None:
        locks[first].acquire()
        both.wait()
        locks[second].acquire()

    threading.Thread(target=take, args=(0, 1), daemon=True).start()
    take(1, 0)


def wait_with_timeout(seconds: float) -> None:
    """A sleep that some programs use: nothing of the process runs, and no other process is waited for."""
    threading.Event().wait(seconds)


def sleep(seconds: float) -> None:
    time.sleep(seconds)


def get(queue: Any) -> None:
    queue.get()

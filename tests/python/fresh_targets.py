"""What children of tests/python/start/test_fresh_child.py and test_start_all.py run."""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

THREADS = 8
_ENDS = {
    "connection": "rebuild_connection",
    "reduction": "AbstractReducer",
    "resource_tracker": "main",
    "spawn": "import_main_path",
}


def ask_from_threads(queue: Any, name: str) -> None:
    """Ask a module for what stands at the end of its code."""
    found: list[bool] = []
    barrier = threading.Barrier(THREADS)

    def ask() -> None:
        barrier.wait()
        found.append(hasattr(sys.modules["multiprocessing." + name], _ENDS[name]))

    threads = [threading.Thread(target=ask) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    queue.put(found)


def nothing() -> None:
    pass


def start_grandchildren(queue: Any, methods: list[str]) -> None:
    import multiprocessing

    codes = []
    for method in methods:
        context: Any = multiprocessing.get_context(method)
        child = context.Process(target=nothing)
        child.start()
        child.join()
        codes.append(child.exitcode)
    queue.put(codes)


def share_memory(queue: Any, size: int) -> None:
    from multiprocessing import shared_memory

    memory = shared_memory.SharedMemory(create=True, size=size)
    try:
        queue.put(len(memory.buf[:size]))
    finally:
        memory.close()
        memory.unlink()


def length_of(queue: Any, data: bytes) -> None:
    queue.put(len(data))


def say_pid(queue: Any, number: int) -> None:
    queue.put((number, os.getpid(), os.getppid()))

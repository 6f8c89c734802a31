"""A parent of every kind of child: `parents.py METHOD [std]` prints their pids as JSON and waits for a kill.

{"serving": those that end with the parent, "other": those that do not}. `std`: uses the standard library.
"""

from __future__ import annotations

import concurrent.futures
import json
import multiprocessing
import os
import signal
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import forkserver, resource_tracker
from typing import Any

if "std" not in sys.argv[2:]:
    import forklift

    forklift.install()


def busy(*_any: Any) -> None:
    while True:
        pass


def hold_and_wait(lock: Any, queue: Any) -> None:
    with lock:
        queue.get()


def sleep_long() -> None:
    time.sleep(60)


def main() -> None:
    context: Any = multiprocessing.get_context(sys.argv[1])
    multiprocessing.set_start_method(sys.argv[1])
    lock, queue = context.Lock(), context.Queue()
    idle = context.Process(target=hold_and_wait, args=(lock, queue), daemon=True)
    at_work = context.Process(target=busy, daemon=True)
    other = context.Process(target=sleep_long)
    for process in (idle, at_work, other):
        process.start()
    pool = context.Pool(2)
    pool.map_async(busy, [1])
    # The standard library's class, imported before it was replaced, and what replaces it.
    executors = [
        kind(2, mp_context=context) for kind in (ProcessPoolExecutor, concurrent.futures.ProcessPoolExecutor)
    ]
    for executor in executors:
        executor.submit(busy)
        executor.submit(abs, 1).result()
    manager = context.Manager()
    shared = manager.list([1])
    assert shared[0] == 1
    serving: dict[str, list[int | None]] = {
        "daemons": [idle.pid, at_work.pid],
        "pool": [worker.pid for worker in pool._pool],
        "executor": [pid for executor in executors for pid in executor._processes],
        "manager": [manager._process.pid],  # type: ignore[attr-defined]
        "helpers": [
            forkserver._forkserver._forkserver_pid,
            resource_tracker._resource_tracker._pid,  # type: ignore[attr-defined]
        ],
    }
    # A pause that misses no signal: one that comes before the call has left its byte in the pipe.
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    print(json.dumps({"serving": serving, "other": other.pid}), flush=True)
    while True:
        os.read(reader, 1)


if __name__ == "__main__":
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # which nohup makes its children ignore
    main()

"""Functions that the processes of test_kills run until they are killed."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import forklift


def put_numbered(queue: Any, size: int) -> None:
    payload = b"x" * size
    number = 0
    while True:
        if hasattr(queue, "qsize") and queue.qsize() > 40:  # an unbounded queue would fill the memory
            time.sleep(0.001)
            continue
        queue.put((number, payload))
        number += 1


def put_one(queue: Any, value: Any) -> None:
    queue.put(value)


def get_one(queue: Any, ready: Any) -> None:
    ready.set()
    queue.get()


def get_for_ever(queue: Any, ready: Any) -> None:
    for i in range(100_000):
        if i == 50:
            ready.set()
        queue.get()


def hold(lock: Any, held: Any) -> None:
    lock.acquire()
    held.set()
    time.sleep(60)


def acquire_and_tell(lock: Any, answer: Any) -> None:
    answer.put("waits")
    lock.acquire()
    answer.put("has it")
    lock.release()


def send_numbered(sender: Any, size: int) -> None:
    payload = b"x" * size
    number = 0
    while True:
        sender.send((number, payload))
        number += 1


def own_things(ready: Any) -> None:
    from forklift.multiprocessing import get_context

    context = get_context("fork")
    queue, lock = context.Queue(), context.Lock()
    kept = [forklift.zeros((100_000,)) for _ in range(5)]
    queue.put(kept)
    queue.put(b"x" * 1_000_000)
    with lock:
        ready.set()
        signal.pause()
    os._exit(1)

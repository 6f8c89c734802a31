"""Queue.shutdown(): a queue that ends for all processes."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from multiprocessing.connection import wait as std_wait
from typing import Any

import forklift
import forklift.multiprocessing as mp
import pytest
from forklift.errors import FinishedError

KINDS = [mp.Queue, mp.SimpleQueue, mp.JoinableQueue, forklift.PortableQueue]


def count_until_shutdown(numbers: Any, sums: Any) -> None:
    total = 0
    while True:
        try:
            total += numbers.get()
        except FinishedError:
            break
    sums.put(total)


def shut_down_later(numbers: Any, begun: Any) -> None:
    begun.set()
    time.sleep(0.05)
    numbers.shutdown()


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_put_is_got_first(kind: Any) -> None:
    numbers = kind()
    for i in range(5):
        numbers.put(i)
    numbers.shutdown()
    numbers.shutdown()
    assert [numbers.get() for _ in range(5)] == list(range(5))
    with pytest.raises(FinishedError, match="closed and empty"):
        numbers.get()
    with pytest.raises(FinishedError, match="nothing more can be put"):
        numbers.put(5)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_consumers_in_other_processes_end(method: str) -> None:
    context = mp.get_context(method)
    numbers, sums = context.Queue(), context.Queue()
    consumers = [context.Process(target=count_until_shutdown, args=(numbers, sums)) for _ in range(2)]
    for consumer in consumers:
        consumer.start()
    for i in range(1000):
        numbers.put(i)
    numbers.shutdown()
    assert sums.get(timeout=30) + sums.get(timeout=30) == sum(range(1000))
    for consumer in consumers:
        consumer.join()


@pytest.mark.parametrize("full", [False, True], ids=["getter", "putter"])
def test_it_wakes_those_who_wait_in_other_processes(full: bool) -> None:
    numbers, begun = mp.Queue(1), mp.Event()
    if full:
        numbers.put(0)
    closer = mp.Process(target=shut_down_later, args=(numbers, begun))
    closer.start()
    begun.wait()
    with pytest.raises(FinishedError):
        numbers.put(1) if full else numbers.get()
    closer.join()


def test_nowait_and_a_time_out() -> None:
    numbers = mp.Queue()
    with pytest.raises(queue.Empty):
        numbers.get_nowait()
    numbers.shutdown()
    with pytest.raises(FinishedError):
        numbers.get_nowait()
    with pytest.raises(FinishedError):
        numbers.get(timeout=5)
    with pytest.raises(FinishedError):
        numbers.put_nowait(1)


def test_it_is_the_error_of_queue_where_python_has_one() -> None:
    assert issubclass(FinishedError, getattr(queue, "ShutDown", Exception))
    assert issubclass(FinishedError, EOFError)


def test_waiting_on_many_and_await() -> None:
    numbers, others = mp.Queue(), mp.Queue(1)
    others.put(0)

    async def both() -> list[BaseException | Any]:
        tasks = [asyncio.create_task(numbers.aget()), asyncio.create_task(others.aput(1))]
        await asyncio.sleep(0.02)
        numbers.shutdown()
        others.shutdown()
        return await asyncio.gather(*tasks, return_exceptions=True)

    got = asyncio.run(asyncio.wait_for(both(), 30))
    assert [type(one) for one in got] == [FinishedError, FinishedError]
    assert std_wait([numbers._reader], timeout=5)
    assert numbers._poll(5)


def test_an_idle_waiter_costs_nothing_after_the_shutdown() -> None:
    numbers = mp.Queue()
    assert numbers._reader.fileno() >= 0  # a thread waits for messages, and rings
    numbers.shutdown()
    begin = time.process_time()
    threading.Event().wait(0.3)
    assert time.process_time() - begin < 0.15

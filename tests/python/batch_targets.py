"""Functions that the processes of test_batches run."""

from __future__ import annotations

from typing import Any

import forklift


def put_numbered_for_ever(queue: Any, batch: int) -> None:
    number = 0
    while True:
        queue.put_many(range(number, number + batch))
        number += batch


def take_all(queue: Any, answer: Any, most: int, total: int) -> None:
    got: list[Any] = []
    while len(got) < total:
        got += queue.get_many(min(most, total - len(got)))
    answer.put(got)


def take_for_ever(queue: Any, most: int, ready: Any) -> None:
    while True:
        queue.get_many(most)
        ready.set()


def put_batches(queue: Any, stop: Any, answer: Any) -> None:
    number = 0
    while not stop.is_set():
        queue.put_many(range(number, number + 50))
        number += 50
    queue.shutdown()
    answer.put(number)


def take_until_the_end(queue: Any, most: int, answer: Any) -> None:
    got: list[int] = []
    try:
        while True:
            got += queue.get_many(most)
    except forklift.FinishedError:
        answer.put(got)

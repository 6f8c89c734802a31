"""Functions that children run in the tests of Broadcast and Latest; fresh interpreters import them here."""

from __future__ import annotations

import time
from typing import Any

import numpy as np


def read_all(stream: Any, answer: Any) -> None:
    """Read until the broadcast is finished, then answer with all messages."""
    with stream.subscribe() as subscription:
        answer.put("here")
        answer.put(list(subscription))


def write_to_array(stream: Any, answer: Any) -> None:
    with stream.subscribe() as subscription:
        answer.put("here")
        array = subscription.get()
        array[0] = 77
        answer.put((float(array.sum()), bool(array.flags.writeable), bool(array.flags.owndata)))


def write_to_tensor(stream: Any, answer: Any) -> None:
    with stream.subscribe() as subscription:
        answer.put("here")
        subscription.get().numpy()[0] = 77
        answer.put("written")


def subscribe_and_stay(stream: Any, answer: Any) -> None:
    subscription = stream.subscribe()
    answer.put("here")
    while subscription is not None:
        time.sleep(1)


def put_numbers(stream: Any, count: int) -> None:
    for number in range(count):
        stream.put(number)


def put_for_ever(latest: Any) -> None:
    number = 0
    while True:
        latest.put(np.full(50_000, number))
        number += 1


def follow(latest: Any, answer: Any, last: int) -> None:
    """Get values until the one with the number `last`, then answer with all that arrived."""
    seen = []
    while not seen or seen[-1] != last:
        value = latest.get(timeout=20)
        assert (value == value[0]).all()
        seen.append(int(value[0]))
    answer.put(seen)


def first_of(latest: Any, answer: Any) -> None:
    answer.put((latest.get(timeout=0), latest.peek(), latest.version, latest.seen))


def use_subscription(subscription: Any, answer: Any) -> None:
    try:
        subscription.get(timeout=0)
    except Exception as error:
        answer.put(type(error).__name__)
    else:
        answer.put("no error")

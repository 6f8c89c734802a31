"""Broadcast and Latest: what arrives at whom, on all start methods; the slow and the dead."""

from __future__ import annotations

import math
import os
import pickle
import signal
import threading
import time
from queue import Empty, Full
from typing import Any

import forklift
import numpy as np
import pytest
import support
import topic_targets


def start(ctx: Any, target: Any, *args: Any) -> Any:
    child = ctx.Process(target=target, args=args)
    child.start()
    return child


def finish(*children: Any) -> None:
    for child in children:
        child.join(support.DEADLINE)
        assert child.exitcode == 0


# --- Broadcast


def test_every_child_gets_everything(ctx: Any) -> None:
    stream, answer = forklift.Broadcast(when_slow="wait"), ctx.Queue()
    children = [start(ctx, topic_targets.read_all, stream, answer) for _ in range(2)]
    assert stream.wait_for_readers(2, timeout=support.DEADLINE)
    sent = [1, "two", {"three": 3.0}, (4,), {5}, list(range(5000)), "x" * 100_000]
    for obj in sent:
        stream.put(obj)
    stream.finish()
    answers = [answer.get(timeout=support.DEADLINE) for _ in range(4)]
    assert [each for each in answers if each != "here"] == [sent, sent]
    finish(*children)
    assert stream.readers == 0


def test_children_write_in_one_order(ctx: Any) -> None:
    stream = forklift.Broadcast(8, when_slow="wait")
    with stream.subscribe() as one, stream.subscribe() as two:
        children = [start(ctx, topic_targets.put_numbers, stream, 200) for _ in range(2)]
        first, second = [], []
        for _ in range(400):
            first.append(one.get(timeout=support.DEADLINE))
            second.append(two.get(timeout=support.DEADLINE))
        assert first == second
        assert sorted(first) == sorted([*range(200), *range(200)])
        finish(*children)


@pytest.mark.parametrize("size", [10, 1_000, 100_000])
def test_an_array_is_private_to_each_reader(ctx: Any, size: int) -> None:
    stream, answer = forklift.Broadcast(), ctx.Queue()
    with stream.subscribe() as here:
        child = start(ctx, topic_targets.write_to_array, stream, answer)
        assert answer.get(timeout=support.DEADLINE) == "here"
        stream.put(np.ones(size))
        assert answer.get(timeout=support.DEADLINE) == (size + 76, True, True)
        mine = here.get()
        assert mine.sum() == size
        assert mine.flags.writeable
        finish(child)


def test_a_tensor_is_shared_by_all(ctx: Any) -> None:
    stream, answer = forklift.Broadcast(), ctx.Queue()
    with stream.subscribe() as here:
        child = start(ctx, topic_targets.write_to_tensor, stream, answer)
        assert answer.get(timeout=support.DEADLINE) == "here"
        tensor = forklift.zeros((4,))
        stream.put(tensor)
        assert answer.get(timeout=support.DEADLINE) == "written"
        assert here.get().numpy()[0] == 77
        assert tensor.numpy()[0] == 77
        finish(child)
    del tensor


def test_frozen_objects_cost_no_copy() -> None:
    stream = forklift.Broadcast()
    with stream.subscribe() as one, stream.subscribe() as two:
        stream.put(forklift.freeze(np.arange(100_000)))
        first, second = one.get(), two.get()
        assert first[-1] == 99_999
        assert first.ctypes.data == second.ctypes.data
        assert not first.flags.writeable
        del first, second


def test_a_slow_reader_misses_the_oldest() -> None:
    stream = forklift.Broadcast(4)
    with stream.subscribe() as slow:
        for number in range(10):
            stream.put(number)
        assert slow.behind == 4
        assert [slow.get() for _ in range(4)] == [6, 7, 8, 9]
        assert slow.missed == 6
        with pytest.raises(Empty):
            slow.get(timeout=0)


def test_a_slow_reader_is_waited_for() -> None:
    stream = forklift.Broadcast(2, when_slow="wait")
    with stream.subscribe() as slow:
        stream.put(1)
        stream.put(2)
        begin = time.monotonic()
        with pytest.raises(Full):
            stream.put(3, timeout=0.1)
        assert time.monotonic() - begin > 0.09
        with pytest.raises(Full):
            stream.put(3, timeout=0)
        assert [slow.get(), slow.get()] == [1, 2]
        stream.put(3, timeout=0)
        assert slow.missed == 0


def test_a_slow_reader_is_disconnected() -> None:
    stream = forklift.Broadcast(2, when_slow="disconnect")
    with stream.subscribe() as slow:
        for number in range(4):
            stream.put(number)
        for _ in range(2):
            with pytest.raises(forklift.DisconnectedError, match="too slow"):
                slow.get(timeout=1)
        assert isinstance(forklift.DisconnectedError(), ConnectionError)
    assert stream.readers == 0


def test_a_dead_reader_holds_nobody_up(ctx: Any) -> None:
    stream, answer = forklift.Broadcast(1, when_slow="wait"), ctx.Queue()
    child = start(ctx, topic_targets.subscribe_and_stay, stream, answer)
    assert answer.get(timeout=support.DEADLINE) == "here"
    stream.put(np.zeros(10_000))
    threading.Timer(0.1, os.kill, (child.pid, signal.SIGKILL)).start()
    begin = time.monotonic()
    stream.put("next", timeout=support.DEADLINE)
    assert time.monotonic() - begin < 5
    child.join()
    assert stream.readers == 0


def test_finished_for_all() -> None:
    stream = forklift.Broadcast()
    subscription = stream.subscribe()
    stream.put(1)
    assert not stream.finished
    stream.finish()
    stream.finish()
    assert stream.finished
    with pytest.raises(ValueError, match="finished"):
        stream.put(2)
    assert list(subscription) == [1]
    assert list(subscription) == []
    with pytest.raises(forklift.FinishedError):
        subscription.get()
    assert issubclass(forklift.FinishedError, EOFError)
    subscription.unsubscribe()


def test_finishing_wakes_a_reader_that_waits() -> None:
    stream = forklift.Broadcast()
    with stream.subscribe() as subscription:
        threading.Timer(0.05, stream.finish).start()
        assert list(subscription) == []


def test_kept_messages_are_for_those_who_come() -> None:
    stream = forklift.Broadcast(8, keep=2)
    for number in range(5):
        stream.put(number)
    with stream.subscribe(oldest=True) as late, stream.subscribe() as later:
        assert [late.get(), late.get()] == [3, 4]
        assert late.behind == later.behind == 0


def test_reading_after_unsubscribing() -> None:
    stream = forklift.Broadcast()
    subscription = stream.subscribe()
    subscription.unsubscribe()
    subscription.unsubscribe()
    with pytest.raises(ValueError, match="unsubscribed"):
        subscription.get(timeout=1)
    assert stream.readers == 0


def test_a_dropped_subscription_is_none() -> None:
    stream = forklift.Broadcast(1, when_slow="wait")
    subscription = stream.subscribe()
    assert stream.readers == 1
    stream.put(1)
    del subscription
    assert stream.readers == 0
    stream.put(2, timeout=0)


def test_a_forked_child_must_subscribe_anew() -> None:
    ctx = forklift.multiprocessing.get_context("fork")
    stream, answer = forklift.Broadcast(), ctx.Queue()
    with stream.subscribe() as subscription:
        child = start(ctx, topic_targets.use_subscription, subscription, answer)
        assert answer.get(timeout=support.DEADLINE) == "RefusedError"
        finish(child)
        stream.put(1)
        assert subscription.get() == 1


def test_one_subscription_more_than_there_are_places() -> None:
    stream = forklift.Broadcast()
    subscriptions = [stream.subscribe() for _ in range(128)]
    with pytest.raises(forklift.NoSpaceError, match="128"):
        stream.subscribe()
    subscriptions.clear()
    stream.subscribe().unsubscribe()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"capacity": 0}, ValueError),
        ({"capacity": -1}, ValueError),
        ({"capacity": 2**40}, ValueError),
        ({"capacity": 2**30}, ValueError),
        ({"capacity": "many"}, TypeError),
        ({"capacity": 2, "keep": 3}, ValueError),
        ({"keep": -1}, ValueError),
        ({"when_slow": "panic"}, ValueError),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        forklift.Broadcast(**arguments)


@pytest.mark.parametrize("timeout", [0, -1, -math.inf, math.nan])
def test_time_outs_that_are_none(timeout: float) -> None:
    stream, latest = forklift.Broadcast(), forklift.Latest()
    with stream.subscribe() as subscription:
        for wait in (subscription.get, latest.get):
            with pytest.raises(Empty):
                wait(timeout=timeout)
        assert stream.wait_for_readers(2, timeout=timeout) is False


@pytest.mark.parametrize("timeout", [1e300, math.inf, None])
def test_time_outs_without_end(timeout: float | None) -> None:
    stream = forklift.Broadcast()
    with stream.subscribe() as subscription:
        threading.Timer(0.05, stream.put, (1,)).start()
        assert subscription.get(timeout=timeout) == 1
    with pytest.raises(TypeError):
        subscription.get(timeout="soon")  # type: ignore[arg-type]


def test_what_cannot_be_pickled_is_not_put() -> None:
    stream = forklift.Broadcast()
    with stream.subscribe() as subscription:
        with pytest.raises((TypeError, AttributeError, pickle.PicklingError)):
            stream.put(lambda: 1)
        stream.put(2)
        assert subscription.get() == 2


def test_neither_travels_in_messages() -> None:
    queue = forklift.multiprocessing.get_context("spawn").Queue(strict=True)
    stream = forklift.Broadcast()
    with stream.subscribe() as subscription:
        for obj in (stream, forklift.Latest()):
            with pytest.raises(RuntimeError, match="inheritance"):
                queue.put(obj)
        with pytest.raises(TypeError, match="belongs to the process"):
            pickle.dumps(subscription)


def test_a_closed_handle() -> None:
    stream, latest = forklift.Broadcast(), forklift.Latest()
    stream.close()
    latest.close()
    for call in (lambda: stream.put(1), stream.subscribe, lambda: latest.put(1), latest.get, latest.peek):
        with pytest.raises(ValueError, match="closed"):
            call()


def test_arrays_as_a_framework_wants_them() -> None:
    stream = forklift.Broadcast()
    with stream.subscribe() as subscription:
        stream.put({"a": np.arange(3)})
        assert isinstance(subscription.get(as_="forklift")["a"], forklift.Tensor)
        with pytest.raises(ValueError, match="abacus"):
            subscription.get(as_="abacus")


def test_a_signal_handler_runs_while_a_reader_waits() -> None:
    stream = forklift.Broadcast()

    class Rung(Exception):
        pass

    def ring(*_: Any) -> None:
        raise Rung

    before = signal.signal(signal.SIGALRM, ring)
    try:
        with stream.subscribe() as subscription:
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with pytest.raises(Rung):
                subscription.get(timeout=support.DEADLINE)
            stream.put(1)
            assert subscription.get() == 1
    finally:
        signal.signal(signal.SIGALRM, before)


# --- Latest


def test_the_newest_wins() -> None:
    latest = forklift.Latest()
    assert latest.version == latest.seen == 0
    with pytest.raises(Empty):
        latest.peek()
    for number in range(5):
        latest.put(number)
    assert latest.peek() == 4
    assert latest.seen == 0
    assert latest.get() == 4
    assert latest.version == latest.seen == 5
    with pytest.raises(Empty):
        latest.get(timeout=0)
    assert latest.peek() == 4
    threading.Timer(0.05, latest.put, ("new",)).start()
    assert latest.get(timeout=support.DEADLINE) == "new"


def test_a_child_begins_with_what_is_there(ctx: Any) -> None:
    latest, answer = forklift.Latest(), ctx.Queue()
    latest.put("weights")
    assert latest.get() == "weights"
    child = start(ctx, topic_targets.first_of, latest, answer)
    assert answer.get(timeout=support.DEADLINE) == ("weights", "weights", 1, 1)
    finish(child)


def test_versions_only_rise(ctx: Any) -> None:
    latest, answer = forklift.Latest(), ctx.Queue()
    children = [start(ctx, topic_targets.follow, latest, answer, 199) for _ in range(2)]
    for number in range(200):
        latest.put(np.full(20_000, number))
    for _ in children:
        seen = answer.get(timeout=support.DEADLINE)
        assert seen == sorted(set(seen))
    finish(*children)


def test_a_writer_that_is_killed_leaves_a_whole_value(ctx: Any) -> None:
    latest = forklift.Latest()
    child = start(ctx, topic_targets.put_for_ever, latest)
    value = None
    for _ in range(20):
        value = latest.get(timeout=support.DEADLINE)
        assert (value == value[0]).all()
    child.kill()
    child.join()
    last = latest.peek()
    assert (last == last[0]).all()
    latest.put("goes on")
    assert latest.get(timeout=support.DEADLINE) == "goes on"
    assert value is not None


def test_a_reader_keeps_its_old_tensor() -> None:
    latest = forklift.Latest()
    latest.put(forklift.tensor(np.ones(100_000)))
    old = latest.get()
    for number in range(10):
        latest.put(forklift.tensor(np.full(100_000, number)))
    assert old.numpy().sum() == 100_000
    assert latest.get().numpy()[0] == 9
    del old

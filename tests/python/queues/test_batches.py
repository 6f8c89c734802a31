"""put_many, get_many and drain: what arrives, what errors say, and what a kill leaves."""

from __future__ import annotations

import collections
import itertools
import queue as queue_module
import signal
import threading
from collections.abc import Iterator
from typing import Any

import batch_targets
import forklift
import numpy as np
import pytest
import support
from forklift import PortableQueue
from forklift.multiprocessing import JoinableQueue, Queue, SimpleQueue

KINDS = (Queue, JoinableQueue, SimpleQueue)

VALUES: list[Any] = [
    0,
    -1,
    127,
    128,
    2**31,
    2**62,
    2**63,
    -(2**80),
    None,
    True,
    False,
    1.5,
    "",
    "text",
    "é" * 100,
    "x" * 1000,
    "\ud800",
    b"",
    b"bytes",
    b"y" * 20_000,
    [1, [2, 3]],
    (1, "two"),
    {"a": 1},
    {1, 2},
    1j,
    collections.OrderedDict(a=1),
]


class Unpicklable:
    def __reduce__(self) -> Any:
        raise RuntimeError("not this one")


class NotBack:
    """It can be pickled, and not unpickled."""

    def __reduce__(self) -> Any:
        return (_fail, ())


def _fail() -> None:
    raise LookupError("not back")


@pytest.mark.parametrize("kind", KINDS)
def test_every_object_arrives_in_order(kind: Any) -> None:
    queue = kind()
    assert queue.put_many(VALUES) == len(VALUES)
    got = queue.drain()
    assert got == VALUES
    assert [type(x) for x in got] == [type(x) for x in VALUES]
    assert queue.drain() == []


@pytest.mark.parametrize("kind", KINDS)
def test_get_many_takes_what_is_there(kind: Any) -> None:
    queue = kind()
    assert queue.put_many(range(1000)) == 1000
    assert queue.get_many(3) == [0, 1, 2]
    assert queue.get() == 3
    got = queue.get_many(500)
    assert got == list(range(4, 504))
    assert queue.get_many(10_000) == list(range(504, 1000))


def test_singles_and_batches_mix() -> None:
    queue: Queue[Any] = Queue()
    for value in VALUES:
        queue.put(value)
    assert queue.get_many(100) == VALUES
    queue.put_many(VALUES)
    assert [queue.get() for _ in VALUES] == VALUES


def test_arrays_and_tensors_travel_as_alone() -> None:
    queue: Queue[Any] = Queue()
    arrays = [np.full(n, n, np.float32) for n in (1, 100, 10_000, 1_000_000)]
    tensor = forklift.zeros((100_000,), dtype="float32")
    queue.put_many([1, *arrays, tensor, 2])
    got = queue.drain()
    assert (got[0], got[-1]) == (1, 2)
    for there, here in zip(arrays, got[1:5], strict=True):
        assert np.array_equal(there, here)
        assert here.flags.writeable
    got[5].fill(7)
    assert tensor.numpy()[5] == 7  # the same memory
    del got


def test_a_framework_may_be_asked_for() -> None:
    queue: Queue[Any] = Queue()
    queue.put_many([np.ones(4), np.ones(50_000)])
    got = queue.get_many(8, as_="forklift")
    assert all(isinstance(x, forklift.Tensor) for x in got)
    with pytest.raises(ValueError, match="nothing"):
        queue.get_many(8, as_="nothing")


def test_portable_queues() -> None:
    queue: PortableQueue[Any] = PortableQueue()
    queue.put_many([1, "two", [3.0]])
    assert queue.drain() == [1, "two", [3.0]]


def test_iterables() -> None:
    queue: Queue[int] = Queue()
    assert queue.put_many([]) == 0
    assert queue.put_many(x * x for x in range(2000)) == 2000
    assert queue.drain() == [x * x for x in range(2000)]
    with pytest.raises(TypeError):
        queue.put_many(5)  # type: ignore[arg-type]


def test_an_iterable_that_raises() -> None:
    def numbers() -> Iterator[int]:
        yield from range(3)
        raise LookupError("of the program")

    queue: Queue[int] = Queue()
    with pytest.raises(LookupError) as caught:
        queue.put_many(numbers())
    assert caught.value.put == 3  # type: ignore[attr-defined]
    assert caught.value.left == []  # type: ignore[attr-defined]
    assert queue.drain() == [0, 1, 2]


def test_full() -> None:
    queue: Queue[int] = Queue(10)
    numbers = iter(range(1000))
    with pytest.raises(forklift.BatchFull) as caught:
        queue.put_many(numbers, 0)
    assert isinstance(caught.value, queue_module.Full)
    assert caught.value.put == 10
    assert caught.value.left[:2] == [10, 11]
    assert queue.drain() == list(range(10))
    # Nothing is lost of an iterator.
    rest = itertools.chain(caught.value.left, numbers)
    taken: list[int] = []
    while True:
        try:
            queue.put_many(rest, timeout=0.001)
            break
        except forklift.BatchFull as full:
            rest = itertools.chain(full.left, rest)
            taken += queue.drain()
    assert taken + queue.drain() == list(range(10, 1000))


def test_empty_and_arguments() -> None:
    queue: Queue[int] = Queue()
    with pytest.raises(queue_module.Empty):
        queue.get_many(5, 0)
    with pytest.raises(queue_module.Empty):
        queue.get_many(5, timeout=0.001)
    for wrong in (0, -1):
        with pytest.raises(ValueError, match="1 or more"):
            queue.get_many(wrong)
    with pytest.raises(TypeError):
        queue.get_many("5")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        queue.put_many()  # type: ignore[call-arg]


def test_an_object_that_cannot_be_pickled_is_dropped(capfd: pytest.CaptureFixture[str]) -> None:
    queue: Queue[Any] = Queue()
    assert queue.put_many([1, Unpicklable(), 2]) == 2
    assert "not this one" in capfd.readouterr().err
    assert queue.drain() == [1, 2]


@pytest.mark.parametrize("make", [lambda: Queue(strict=True), SimpleQueue])
def test_or_it_raises_and_says_how_many_were_put(make: Any) -> None:
    queue = make()
    wrong = Unpicklable()
    with pytest.raises(RuntimeError, match="not this one") as caught:
        queue.put_many([1, 2, wrong, 3])
    assert caught.value.put == 2  # type: ignore[attr-defined]
    assert caught.value.left == [wrong]  # type: ignore[attr-defined]
    assert queue.drain() == [1, 2]


def test_an_object_that_cannot_be_unpickled_takes_no_other_along() -> None:
    queue: Queue[Any] = Queue()
    queue.put_many([1, NotBack(), 2, NotBack(), 3])
    with pytest.raises(LookupError, match="not back") as caught:
        queue.get_many(10)
    assert caught.value.got == [1, 2, 3]  # type: ignore[attr-defined]
    assert queue.drain() == []


def test_shut_down() -> None:
    queue: Queue[int] = Queue()
    queue.put_many([1, 2])
    queue.shutdown()
    with pytest.raises(forklift.FinishedError) as caught:
        queue.put_many([3])
    assert caught.value.put == 0  # type: ignore[attr-defined]
    assert queue.get_many(10) == [1, 2]
    with pytest.raises(forklift.FinishedError):
        queue.get_many(10)
    assert queue.drain() == []


def test_closed() -> None:
    queue: Queue[int] = Queue()
    queue.close()
    for call in (lambda: queue.put_many([1]), lambda: queue.get_many(1), queue.drain):
        with pytest.raises(ValueError, match="closed"):
            call()
    simple: SimpleQueue[int] = SimpleQueue()
    simple.close()
    for simple_call in (lambda: simple.put_many([1]), lambda: simple.get_many(1), simple.drain):
        with pytest.raises(OSError, match="closed"):
            simple_call()


def test_put_many_waits_for_room_and_get_many_for_an_object() -> None:
    queue: Queue[int] = Queue(7)
    got: list[int] = []

    def take() -> None:
        while len(got) < 1000:
            got.extend(queue.get_many(10, support.DEADLINE))

    taker = threading.Thread(target=take)
    taker.start()
    assert queue.put_many(range(1000)) == 1000
    taker.join()
    assert got == list(range(1000))


def test_tasks_are_counted() -> None:
    queue: JoinableQueue[int] = JoinableQueue()
    queue.put_many(range(5))
    for _ in queue.get_many(5):
        queue.task_done()
    queue.join()
    with pytest.raises(ValueError, match="too many"):
        queue.task_done()


def test_redelivery() -> None:
    queue: JoinableQueue[Any] = JoinableQueue(redeliver=True)
    queue.put_many(range(5))
    assert queue.get_many(3) == [0, 1, 2]
    queue.task_done()
    queue.give_back()
    assert queue.unacknowledged() == 2
    assert queue.get_many(10) == [1, 3, 4]
    for _ in range(4):
        queue.task_done()
    queue.join()
    # One that cannot be unpickled goes back, and takes no other along.
    queue.put_many([1, NotBack(), 2])
    assert queue.get_many(10) == [1]
    with pytest.raises(LookupError):
        queue.get_many(10)
    queue.task_done()


def test_descriptors_are_readable(ctx: Any) -> None:
    queue = ctx.Queue()
    queue.put_many([1, 2, 3])
    assert queue._reader.poll(support.DEADLINE)
    assert queue.get_many(10) == [1, 2, 3]
    assert not queue._reader.poll(0)


def test_a_signal_handler_that_raises_leaves_nothing_taken() -> None:
    class Rang(Exception):
        pass

    def ring(*_: Any) -> None:
        raise Rang

    queue: Queue[int] = Queue(2)
    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        with pytest.raises(Rang):
            queue.get_many(10)
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        with pytest.raises(Rang) as caught:
            queue.put_many([1, 2, 3])
    finally:
        signal.signal(signal.SIGALRM, before)
    assert caught.value.put == 2  # type: ignore[attr-defined]
    assert caught.value.left == [3]  # type: ignore[attr-defined]
    assert queue.drain() == [1, 2]


def test_between_processes(ctx: Any) -> None:
    queue, answer = ctx.Queue(100), ctx.Queue()
    taker = ctx.Process(target=batch_targets.take_all, args=(queue, answer, 64, 5000))
    taker.start()
    queue.put_many(range(5000))
    assert answer.get(timeout=support.DEADLINE) == list(range(5000))
    taker.join()


@pytest.mark.parametrize("kind", ["Queue", "JoinableQueue", "SimpleQueue"])
def test_kills_of_putters(ctx: Any, kind: str) -> None:
    """What a killed process had put is there, whole, each once and in order; others go on."""
    for round_ in range(8):
        queue = ctx.Queue(300) if kind == "Queue" else getattr(ctx, kind)()
        putter = ctx.Process(
            target=batch_targets.put_numbered_for_ever, args=(queue, 1 + 37 * round_), daemon=True
        )
        putter.start()
        got: list[int] = []
        while len(got) < 2000 + 500 * round_:
            got += queue.get_many(64)
        putter.kill()
        putter.join()
        got += queue.drain()
        assert got == list(range(len(got)))
        assert queue.put_many(["other"]) == 1
        assert queue.get_many(5) == ["other"]


def test_kills_of_getters(ctx: Any) -> None:
    """A killed process takes along what its last call had taken, and nothing else is lost."""
    most = 50
    for _ in range(8):
        queue, ready = ctx.Queue(), ctx.Event()
        queue.put_many(range(20_000))
        getter = ctx.Process(target=batch_targets.take_for_ever, args=(queue, most, ready), daemon=True)
        getter.start()
        ready.wait()
        getter.kill()
        getter.join()
        left = queue.qsize()
        rest = queue.drain()
        # Batches are taken from the front, in order.
        assert rest == list(range(20_000 - left, 20_000))
        queue.put_many([-1])
        assert queue.get_many(most) == [-1]


def test_a_storm_of_kills(ctx: Any) -> None:
    """Putters and getters at work while some of both are killed: nothing comes twice, nothing is torn."""
    queue, answer, put, stop = ctx.Queue(500), ctx.Queue(), ctx.Queue(), ctx.Event()
    putter = ctx.Process(target=batch_targets.put_batches, args=(queue, stop, put))
    putter.start()
    for _ in range(10):
        ready = ctx.Event()
        getter = ctx.Process(target=batch_targets.take_for_ever, args=(queue, 20, ready), daemon=True)
        getter.start()
        ready.wait()
        getter.kill()
        getter.join()
    stop.set()
    taker = ctx.Process(target=batch_targets.take_until_the_end, args=(queue, 100, answer))
    taker.start()
    got = answer.get(timeout=support.DEADLINE)
    total = put.get(timeout=support.DEADLINE)
    putter.join()
    taker.join()
    assert got == list(range(total - len(got), total))

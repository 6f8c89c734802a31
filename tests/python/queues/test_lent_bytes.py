"""get(copy=False): large bytes as a view of the shared memory."""

from __future__ import annotations

import asyncio
import gc
import os
import queue as queue_module
import signal
import threading
from typing import Any

import forklift
import forklift.multiprocessing
import numpy as np
import pytest
import support
import targets

LIMIT = 1 << 20
LARGE = 3 << 20


def blocks() -> int:
    gc.collect()
    return int(forklift.stats()["blocks"])


def large(seed: int = 0, length: int = LARGE) -> bytes:
    return np.random.default_rng(seed).bytes(length)


def new_queue() -> Any:
    return forklift.multiprocessing.Queue()


def test_from_another_process(ctx: Any) -> None:
    queue = ctx.Queue()
    process = ctx.Process(target=targets.put_one, args=(queue, large()))
    process.start()
    view = queue.get(copy=False)
    process.join(support.DEADLINE)
    assert isinstance(view, memoryview)
    assert view.readonly
    assert (view.format, view.ndim, view.nbytes) == ("B", 1, LARGE)
    assert view == large()  # also after the sender has ended
    assert hash(view) == hash(large())


def test_which_objects_are_lent() -> None:
    queue = new_queue()

    def got(value: Any, **how: Any) -> Any:
        queue.put(value)
        return queue.get(**how)

    value = large()
    assert type(got(value)) is bytes
    assert type(got(value, copy=True)) is bytes
    assert type(got(value[:LIMIT], copy=False)) is bytes
    assert type(got(value[: LIMIT + 1], copy=False)) is memoryview
    assert type(got(value.hex(), copy=False)) is str
    mutable = got(bytearray(value), copy=False)
    assert type(mutable) is bytearray
    assert mutable == value
    pair, table = got((value, {"other": [large(1)], "short": b"x"}), copy=False), None
    pair, table = pair
    assert type(pair) is memoryview
    assert pair == value
    assert type(table["other"][0]) is memoryview
    assert table["other"][0] == large(1)
    assert table["short"] == b"x"
    twice = got([value, value], copy=False)  # pickled, since it occurs twice
    assert twice == [value, value]
    assert [type(each) for each in twice] == [bytes, bytes]


def test_the_memory_goes_with_the_last_user() -> None:
    queue = new_queue()
    before = blocks()
    queue.put(large())
    view = queue.get(copy=False)
    assert blocks() == before + 1
    part = view[LIMIT:]
    array = np.frombuffer(part, np.uint8)
    del view
    part_copy = bytes(part)
    assert blocks() == before + 1
    assert not array.flags.writeable
    assert array.tobytes() == part_copy == large()[LIMIT:]
    del array
    part.release()
    assert blocks() == before
    with pytest.raises(ValueError, match="released"):
        part[0]


def test_release_gives_the_memory_back_at_once() -> None:
    queue = new_queue()
    before = blocks()
    queue.put(large())
    with queue.get(copy=False) as view:
        assert blocks() == before + 1
        assert view[:3] == large()[:3]
    assert blocks() == before
    # What is lent counts against the budget, and does not afterwards.
    assert queue.empty()


def test_it_is_nobody_elses_memory() -> None:
    """While a view is there, its block is not used for another message."""
    queue = new_queue()
    queue.put(large(1))
    first = queue.get(copy=False)
    views = []
    for seed in range(2, 8):
        queue.put(large(seed))
        views.append(queue.get(copy=False))
        queue.put(large(seed))
        assert queue.get() == large(seed)
    assert first == large(1)
    for seed, view in enumerate(views, 2):
        assert view == large(seed)


def test_it_cannot_be_written() -> None:
    queue = new_queue()
    queue.put(large())
    view = queue.get(copy=False)
    with pytest.raises(TypeError, match="read-only"):
        view[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        np.frombuffer(view, np.uint8)[0] = 1


def test_it_cannot_be_pickled_but_its_bytes_can() -> None:
    queue = forklift.multiprocessing.Queue(strict=True)
    queue.put(large())
    view = queue.get(copy=False)
    with pytest.raises(TypeError, match="memoryview"):
        queue.put(view)
    assert queue.empty()
    queue.put(bytes(view))
    assert queue.get(copy=False) == view


def test_the_other_ways_to_receive(ctx: Any) -> None:
    value = large()
    simple = ctx.SimpleQueue()
    sender = threading.Thread(target=simple.put, args=(value,))  # a queue bounded in bytes
    sender.start()
    assert type(simple.get(copy=False)) is memoryview
    sender.join(support.DEADLINE)
    queue = ctx.JoinableQueue()
    queue.put(value)
    assert type(queue.get_nowait(copy=False)) is memoryview
    queue.task_done()
    queue.put(value)
    assert type(asyncio.run(queue.aget(copy=False))) is memoryview
    queue.task_done()
    queue.join()
    with pytest.raises(queue_module.Empty):
        queue.get(False, copy=False)
    left, right = ctx.Pipe()
    sender = threading.Thread(target=left.send, args=(value,))
    sender.start()
    view = right.recv(copy=False)
    sender.join(support.DEADLINE)
    assert type(view) is memoryview
    assert view == value
    left.close()
    right.close()


def test_a_message_that_is_delivered_again() -> None:
    """Until it is acknowledged the queue has a right to the memory, too."""
    ctx = forklift.multiprocessing.get_context("fork")
    queue = ctx.JoinableQueue(redeliver=True)
    before = blocks()
    queue.put(large())

    def take_and_die() -> None:
        assert queue.get(copy=False) == large()
        os.kill(os.getpid(), signal.SIGKILL)

    process = ctx.Process(target=take_and_die)
    process.start()
    process.join(support.DEADLINE)
    assert process.exitcode == -signal.SIGKILL
    view = queue.get(timeout=support.DEADLINE, copy=False)
    queue.task_done()
    assert view == large()
    view.release()
    assert blocks() == before


def test_a_wrong_argument() -> None:
    queue = new_queue()
    queue.put(large())

    class Unsure:
        def __bool__(self) -> bool:
            raise RuntimeError("neither")

    with pytest.raises(RuntimeError, match="neither"):
        queue.get(copy=Unsure())
    with pytest.raises(TypeError, match="unexpected keyword argument 'Copy'"):
        queue.get(Copy=False)
    assert queue.get() == large()  # nothing was taken


def test_a_fork_while_a_view_is_there() -> None:
    ctx = forklift.multiprocessing.get_context("fork")
    queue, answer, go = ctx.Queue(), ctx.SimpleQueue(), ctx.Event()
    before = blocks()
    queue.put(large(5))
    view = queue.get(copy=False)

    def read_later() -> None:
        assert go.wait(support.DEADLINE)
        answer.put(view == large(5))

    process = ctx.Process(target=read_later)
    process.start()
    view.release()
    # Were the memory free, these would be put into it.
    for seed in range(4):
        queue.put(large(seed))
    go.set()
    assert answer.get()
    process.join(support.DEADLINE)
    assert process.exitcode == 0
    for seed in range(4):
        assert queue.get(copy=False) == large(seed)
    assert support.until(lambda: blocks() == before, "the child's right to go")


@pytest.mark.parametrize("when", ["before", "while"])
def test_the_sender_is_killed(when: str) -> None:
    """Before the get, and while the view is there."""
    ctx = forklift.multiprocessing.get_context("fork")
    queue, ready = ctx.Queue(), ctx.Event()
    before = blocks()

    def put_and_wait() -> None:
        queue.put(large(9))
        ready.set()
        threading.Event().wait()

    process = ctx.Process(target=put_and_wait)
    process.start()
    assert ready.wait(support.DEADLINE)
    view = queue.get(copy=False) if when == "while" else None
    process.kill()
    process.join(support.DEADLINE)
    if view is None:
        view = queue.get(timeout=support.DEADLINE, copy=False)
    assert view == large(9)
    for seed in range(3):  # its death was reaped, and the memory is still this process's
        queue.put(large(seed))
        assert queue.get() == large(seed)
    assert view == large(9)
    view.release()
    assert support.until(lambda: blocks() == before, "the block to be free")


def test_the_receiver_is_killed_with_a_view() -> None:
    ctx = forklift.multiprocessing.get_context("fork")
    queue, ready = ctx.Queue(), ctx.Event()
    before = blocks()
    queue.put(large())

    def take_and_wait() -> None:
        view = queue.get(copy=False)
        ready.set()
        threading.Event().wait()
        view.release()

    process = ctx.Process(target=take_and_wait)
    process.start()
    assert ready.wait(support.DEADLINE)
    assert blocks() == before + 1
    process.kill()
    process.join(support.DEADLINE)
    assert support.until(lambda: blocks() == before, "the dead process's memory to come back")

"""wait() over queues, connections, sentinels, sockets and files; select, selectors, asyncio; coroutines."""

from __future__ import annotations

import asyncio
import multiprocessing as std
import os
import queue as queue_module
import select
import selectors
import socket
import sys
import threading
import time
from concurrent.futures import process as executors
from multiprocessing import connection as std_connection
from typing import Any

import forklift.multiprocessing as mp
import numpy as np
import pipe_targets
import pytest
import support
import targets
from forklift.multiprocessing import connection
from forklift.multiprocessing._start.executors import until_taken

BOTH = pytest.mark.parametrize("wait", [std_connection.wait, connection.wait], ids=["std", "ours"])


@BOTH
def test_everything_that_can_be_waited_for(ctx: Any, wait: Any) -> None:
    queue, simple = ctx.Queue(), ctx.SimpleQueue()
    mine, theirs = ctx.Pipe()
    left, right = socket.socketpair()
    reader, writer = os.pipe()
    process = ctx.Process(target=targets.take, args=(queue, 1, simple))
    objects = [queue._reader, simple._reader, mine, left, reader]
    assert wait(objects, 0) == []
    begin = time.monotonic()
    assert wait(objects, 0.05) == []
    assert time.monotonic() - begin >= 0.05
    for make_ready, undo, which in (
        (lambda: theirs.send(1), mine.recv, mine),
        (lambda: right.send(b"x"), lambda: left.recv(1), left),
        (lambda: os.write(writer, b"x"), lambda: os.read(reader, 1), reader),
        (lambda: simple.put(np.zeros(5000)), simple.get, objects[1]),
        (lambda: queue.put(1), queue.get, objects[0]),
    ):
        threading.Timer(0.02, make_ready).start()
        assert wait(objects, 10) == [which]
        undo()
        assert wait(objects, 0) == []
    process.start()
    queue.put(None)
    assert wait([mine, process.sentinel], 20) == [process.sentinel]
    process.join()
    assert wait([mine, simple._reader], 20) == [simple._reader]
    theirs.close()
    assert wait([mine], 20) == [mine]
    for fd in (reader, writer):
        os.close(fd)
    left.close()
    right.close()


def test_who_put_a_message_and_ended_is_not_seen_to_have_ended_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The queue's descriptor is rung by a thread, which may come later than the end of the process."""
    queue = mp.Queue()
    reader, writer = os.pipe()

    def rung_late(waited: list[Any], timeout: float | None) -> list[Any]:
        queue.put(1)
        os.close(writer)
        return [each for each in waited if each.object == reader]

    with monkeypatch.context() as patch:
        patch.setattr(connection, "_std_wait", rung_late)
        assert connection.wait([queue._reader, reader], support.DEADLINE) == [queue._reader, reader]
    assert queue.get() == 1
    os.close(reader)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="workers of executors live on in Python 3.10")
@pytest.mark.parametrize("installed", [False, True])
def test_an_executors_worker_that_has_done_its_tasks_ends_when_that_is_known(
    ctx: Any, installed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The executor waits in the standard library's `wait`, which looks at the descriptors alone."""
    calls, results = ctx.Queue(), ctx.SimpleQueue()
    make = ctx.Process
    if installed:
        # What forklift.install() leaves: the standard library's process, started by our Popen.
        make = std.get_context(ctx.get_start_method()).Process
        monkeypatch.setattr(make, "_Popen", staticmethod(ctx.Process._Popen))
    worker = make(target=executors._process_worker, args=(calls, results, None, (), 1))
    worker.start()
    calls.put(executors._CallItem(7, abs, (-3,), {}))
    assert std_connection.wait([results._reader], support.DEADLINE) == [results._reader]
    assert std_connection.wait([worker.sentinel], 0.3) == []
    answer = results.get()
    assert (answer.work_id, answer.result, answer.exit_pid) == (7, 3, worker.pid)
    worker.join(support.DEADLINE)
    assert worker.exitcode == 0


def test_until_what_was_put_is_taken() -> None:
    queue = mp.SimpleQueue()
    assert until_taken(queue, 0)
    queue.put(1)
    queue.put(2)
    assert not until_taken(queue, 0.02)
    taker = threading.Thread(target=lambda: [queue.get() for _ in range(2)])
    taker.start()
    assert until_taken(queue, support.DEADLINE)
    taker.join()


def test_queues_themselves() -> None:
    queues = [mp.Queue(), mp.JoinableQueue(), mp.SimpleQueue()]
    assert connection.wait(queues, 0.02) == []
    for queue in queues:
        threading.Timer(0.02, queue.put, (1,)).start()
        assert connection.wait(queues) == [queue]
        queue.get()
    for queue in queues:
        queue.put(2)
    assert connection.wait(queues) == queues
    mine, theirs = mp.Pipe()
    theirs.send(3)
    assert connection.wait([*queues, mine], 5) == [*queues, mine]
    assert connection.wait([*queues, theirs], 5) == queues


def test_readiness_that_is_over_is_not_reported(ctx: Any) -> None:
    """Another process takes the message that had rung this one's bell."""
    queue, answer = ctx.Queue(), ctx.Queue()
    queue._reader.fileno()
    queue.put(1)
    process = ctx.Process(target=targets.take, args=(queue, 1, answer))
    process.start()
    answer.get(timeout=support.DEADLINE)
    process.join()
    assert connection.wait([queue], 0.05) == []
    queue.put(2)
    assert connection.wait([queue], 5) == [queue]
    assert queue.get() == 2


def test_select_and_selectors() -> None:
    queue = mp.Queue()
    mine, theirs = mp.Pipe()
    poll = select.poll()
    poll.register(mine, select.POLLIN)
    poll.register(queue._reader, select.POLLIN)
    assert poll.poll(0) == []
    queue.put(1)
    assert poll.poll(5000) == [(queue._reader.fileno(), select.POLLIN)]
    queue.get()
    theirs.send(1)
    assert poll.poll(5000) == [(mine.fileno(), select.POLLIN)]
    assert select.select([mine, queue._reader], [mine], [], 0) == ([mine], [mine], [])
    with selectors.EpollSelector() as selector:
        selector.register(mine, selectors.EVENT_READ)
        assert len(selector.select(0)) == 1
        mine.recv()
        assert selector.select(0) == []


# --- coroutines


def test_aget_and_aput_between_processes(ctx: Any) -> None:
    async def talk() -> None:
        process = ctx.Process(target=targets.echo, args=(there, back))
        process.start()
        for value in (1, "ab", np.arange(10_000)):
            await there.aput(value)
            got = await back.aget(timeout=support.DEADLINE)
            assert (got == value) if not isinstance(value, np.ndarray) else (got == value).all()
        await there.aput(targets.STOP)
        process.join()

    for make in (ctx.Queue, ctx.SimpleQueue):
        there, back = make(), make()
        asyncio.run(talk())


def test_many_coroutines_wait_on_one_queue() -> None:
    async def main(queue: Any) -> None:
        takers = [asyncio.ensure_future(queue.aget()) for _ in range(10)]
        await asyncio.sleep(0.01)
        for i in range(10):
            await queue.aput(i)
        assert sorted(await asyncio.gather(*takers)) == list(range(10))

    for queue in (mp.Queue(), mp.SimpleQueue(), mp.JoinableQueue()):
        asyncio.run(main(queue))


@pytest.mark.parametrize("kind", ["Queue", "SimpleQueue", "Pipe"])
def test_a_cancelled_coroutine_has_taken_nothing(kind: str) -> None:
    async def main() -> None:
        for i in range(200):
            task = asyncio.ensure_future(take())
            for _ in range(i % 4):
                await asyncio.sleep(0)
            put(i)
            if i % 2:
                time.sleep(0.0005)  # the descriptor is readable by now
            for _ in range(i % 3):
                await asyncio.sleep(0)
            task.cancel()
            try:
                got = await task
            except asyncio.CancelledError:
                got = await take()
            assert got == i

    if kind == "Pipe":
        receiver, sender = mp.Pipe(duplex=False)
        take, put = receiver.arecv, sender.send
    else:
        queue = getattr(mp, kind)()
        take, put = queue.aget, queue.put
    asyncio.run(main())


def test_aget_gives_up_in_time() -> None:
    async def main() -> None:
        for seconds in (0, -1, 0.05):
            begin = time.monotonic()
            with pytest.raises(queue_module.Empty):
                await queue.aget(timeout=seconds)
            assert time.monotonic() - begin >= seconds
        await queue.aput(1)
        with pytest.raises(queue_module.Full):
            await queue.aput(2, timeout=0.05)
        assert await queue.aget(timeout=0) == 1

    queue = mp.Queue(1)
    asyncio.run(main())


@pytest.mark.parametrize("kind", ["Queue", "SimpleQueue", "Pipe"])
def test_a_full_one_makes_the_coroutine_wait_and_not_the_loop(kind: str) -> None:
    payload = b"x" * 30_000

    async def main() -> None:
        beats = 0

        async def heart() -> None:
            nonlocal beats
            while True:
                beats += 1
                await asyncio.sleep(0.001)

        beating = asyncio.ensure_future(heart())
        senders = [asyncio.ensure_future(put(payload)) for _ in range(6)]
        await asyncio.sleep(0.05)
        assert 1 <= sum(sender.done() for sender in senders) < 6
        assert beats > 5
        # One that is cancelled has put nothing.
        late = [sender for sender in senders if not sender.done()]
        late[0].cancel()
        taken = 0
        thread = threading.Thread(target=lambda: [take() for _ in range(5)])
        thread.start()
        await asyncio.wait(senders, timeout=support.DEADLINE)
        assert all(sender.done() for sender in senders)
        assert sum(not sender.cancelled() for sender in senders) == 5
        await asyncio.get_running_loop().run_in_executor(None, thread.join)
        assert taken == 0
        beating.cancel()

    if kind == "Pipe":
        receiver, sender = mp.Pipe(duplex=False)
        take, put = receiver.recv, sender.asend
    else:
        queue = mp.Queue(2) if kind == "Queue" else mp.SimpleQueue()
        take, put = queue.get, queue.aput
    asyncio.run(main())


def test_coroutines_see_the_end_of_a_pipe() -> None:
    async def main() -> None:
        receiver, sender = mp.Pipe(duplex=False)
        taker = asyncio.ensure_future(receiver.arecv())
        await asyncio.sleep(0.01)
        sender.close()
        with pytest.raises(EOFError):
            await taker
        receiver.close()
        with pytest.raises(OSError, match="handle is closed"):
            await receiver.arecv()
        receiver, sender = mp.Pipe(duplex=False)
        await sender.asend(b"x" * 60_000)
        giver = asyncio.ensure_future(sender.asend(b"x" * 60_000))
        await asyncio.sleep(0.01)
        receiver.close()
        with pytest.raises(BrokenPipeError):
            await giver

    asyncio.run(main())


def test_a_connection_on_a_descriptor_in_a_coroutine() -> None:
    async def main() -> None:
        here, there = socket.socketpair()
        mine, theirs = connection.Connection(here.detach()), connection.Connection(there.detach())
        taker = asyncio.ensure_future(mine.arecv())
        await asyncio.sleep(0.01)
        await theirs.asend([1])
        assert await taker == [1]

    asyncio.run(main())


def test_add_reader() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        got: list[Any] = []
        everything = asyncio.Event()

        def take(end: Any) -> None:
            while end.poll():
                got.append(end.recv())
            if len(got) == 20:
                everything.set()

        for end in (mine, queue._reader):
            loop.add_reader(end, take, end)
        for i in range(10):
            theirs.send(i)
            queue.put(i)
            await asyncio.sleep(0)
        await asyncio.wait_for(everything.wait(), support.DEADLINE)
        for end in (mine, queue._reader):
            loop.remove_reader(end)
        assert sorted(got) == sorted([*range(10)] * 2)

    mine, theirs = mp.Pipe()
    queue = mp.Queue()
    asyncio.run(main())


def test_children_wait_too(ctx: Any) -> None:
    """A child that inherited an end in whose descriptor this process was interested has its own say."""
    ours, theirs = ctx.Pipe()
    theirs.fileno()
    others = (ours,) if ctx.get_start_method() == "fork" else ()
    process = ctx.Process(target=pipe_targets.answer, args=(theirs, *others))
    process.start()
    theirs.close()
    for i in range(100):
        ours.send(i)
        assert connection.wait([ours, process.sentinel], 20) == [ours]
        assert ours.recv() == 2 * i
    ours.close()
    process.join(support.DEADLINE)
    assert process.exitcode == 0

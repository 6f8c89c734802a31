"""Pipes between processes: start methods, inheritance, kills, connections and descriptors in messages."""

from __future__ import annotations

import gc
import multiprocessing as std
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from multiprocessing import reduction, resource_sharer
from typing import Any

import forklift
import forklift.multiprocessing as mp
import numpy as np
import pipe_targets
import pytest
import support
from forklift.multiprocessing import connection


@pytest.fixture(params=["fork", "spawn", "forkserver"])
def either_method(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def sharer() -> Any:
    yield None
    gc.collect()
    resource_sharer.stop(support.DEADLINE)  # type: ignore[attr-defined]


@pytest.mark.parametrize("library", [std, mp], ids=["multiprocessing", "forklift"])
def test_both_ways_and_the_end(library: Any, either_method: str) -> None:
    ctx = library.get_context(either_method)
    ours, theirs = ctx.Pipe()
    others = (ours,) if either_method == "fork" else ()
    process = ctx.Process(target=pipe_targets.answer, args=(theirs, *others))
    process.start()
    theirs.close()
    for value in (1, "ab", b"x" * 100_000, [1.5]):
        ours.send(value)
        assert ours.recv() == value * 2
    ours.close()
    process.join(support.DEADLINE)
    assert process.exitcode == 0


@pytest.mark.parametrize("library", [std, mp], ids=["multiprocessing", "forklift"])
def test_an_inherited_end_counts(library: Any, either_method: str) -> None:
    ctx = library.get_context(either_method)
    receiver, sender = ctx.Pipe(duplex=False)
    ready = ctx.Event()
    process = ctx.Process(target=pipe_targets.hold, args=(sender, ready))
    process.start()
    ready.wait()
    sender.send("from here")
    sender.close()
    assert receiver.recv() == "from here"
    assert not receiver.poll(0.05)  # the child holds the other end
    threading.Timer(0.1, os.kill, (process.pid, signal.SIGKILL)).start()
    with pytest.raises(EOFError):
        receiver.recv()
    process.join()
    receiver.close()


@pytest.mark.parametrize("library", [std, mp], ids=["multiprocessing", "forklift"])
def test_the_last_reader_is_killed(library: Any, either_method: str) -> None:
    ctx = library.get_context(either_method)
    receiver, sender = ctx.Pipe(duplex=False)
    ready = ctx.Event()
    process = ctx.Process(target=pipe_targets.hold, args=(receiver, ready))
    process.start()
    ready.wait()
    receiver.close()
    sender.send("one")
    threading.Timer(0.1, os.kill, (process.pid, signal.SIGKILL)).start()
    with pytest.raises(BrokenPipeError):  # noqa: PT012
        while True:
            sender.send_bytes(b"x" * 30_000)  # waits: nobody takes anything
    process.join()
    sender.close()


def test_the_end_is_seen_at_once(ctx: Any) -> None:
    receiver, sender = mp.Pipe(duplex=False)
    ready = ctx.Event()
    process = ctx.Process(target=pipe_targets.hold, args=(sender, ready))
    process.start()
    ready.wait()
    sender.close()
    killed = 0.0

    def kill() -> None:
        nonlocal killed
        killed = time.monotonic()
        os.kill(process.pid, signal.SIGKILL)

    threading.Timer(0.3, kill).start()
    with pytest.raises(EOFError):
        receiver.recv()
    assert time.monotonic() - killed < 0.15
    process.join()


def test_a_program_that_was_executed_holds_what_it_inherited() -> None:
    receiver, sender = mp.Pipe(duplex=False)
    fd = sender.fileno()
    child = subprocess.Popen(["sleep", "1000"], pass_fds=[fd])
    sender.send("before")
    sender.close()
    assert receiver.recv() == "before"
    assert not receiver.poll(0.1)
    child.kill()
    with pytest.raises(EOFError):
        receiver.recv()
    child.wait()
    # Without pass_fds it inherits nothing.
    receiver, sender = mp.Pipe(duplex=False)
    child = subprocess.Popen(["sleep", "1000"])
    sender.close()
    with pytest.raises(EOFError):
        receiver.recv()
    child.kill()
    child.wait()


def test_a_child_that_executes_another_program_keeps_nothing() -> None:
    receiver, sender = mp.Pipe(duplex=False)
    pid = os.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-c", "import sys; sys.stdin.read()"])
    sender.close()
    with pytest.raises(EOFError):
        receiver.recv()
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


@pytest.mark.parametrize("duplex", [True, False])
def test_four_writers_and_four_readers(ctx: Any, duplex: bool) -> None:
    receiver, sender = ctx.Pipe(duplex)
    results = ctx.Queue()
    writers = [ctx.Process(target=pipe_targets.send_many, args=(sender, n * 1000, 1000)) for n in range(4)]
    readers = [ctx.Process(target=pipe_targets.receive_many, args=(receiver, results)) for _ in range(4)]
    for process in writers + readers:
        process.start()
    for process in writers:
        process.join(support.DEADLINE)
    for _ in readers:
        sender.send(None)
    got = [results.get(timeout=support.DEADLINE) for _ in readers]
    for process in readers:
        process.join(support.DEADLINE)
    assert sorted(value for part in got for value in part) == list(range(4000))
    for part in got:  # each writer's messages come in order
        for n in range(4):
            of_one = [value for value in part if value // 1000 == n]
            assert of_one == sorted(of_one)


@pytest.mark.usefixtures("sharer")
def test_connections_through_queues_and_connections(ctx: Any) -> None:
    for way in ("queue", "connection"):
        there = ctx.Queue() if way == "queue" else ctx.Pipe()
        target = there if way == "queue" else there[1]
        process = ctx.Process(target=pipe_targets.use_connections, args=(target,))
        process.start()
        put = there.put if way == "queue" else there[0].send
        for i in range(3):
            mine, theirs = ctx.Pipe()
            put(theirs)
            theirs.close()
            # In transit, or there: the sender's own objects are gone.
            del theirs
            gc.collect()
            array = np.arange(50_000) + i
            mine.send(array)
            words, back = mine.recv()
            assert words == "seen"
            assert (back == array).all()
            with pytest.raises(EOFError):
                mine.recv()
            mine.close()
        put(None)
        process.join(support.DEADLINE)
        assert process.exitcode == 0


@pytest.mark.usefixtures("sharer")
def test_what_was_sent_before_the_connection_travelled_is_there(ctx: Any) -> None:
    queue = ctx.Queue()
    mine, theirs = ctx.Pipe()
    mine.send("long before")
    queue.put(theirs)
    theirs.close()
    process = ctx.Process(target=pipe_targets.use_connections, args=(queue,))
    process.start()
    assert mine.recv() == ("seen", "long before")
    queue.put(None)
    process.join(support.DEADLINE)


def test_descriptors_between_messages(ctx: Any) -> None:
    for _ in range(20):
        ours, theirs = ctx.Pipe()
        process = ctx.Process(target=pipe_targets.take_handle, args=(theirs,))
        process.start()
        left, right = socket.socketpair()
        ours.send("before")
        reduction.send_handle(ours, right.fileno(), process.pid)
        ours.send("after")
        right.close()
        left.send(b"through it")
        assert ours.recv() == ("before", "after", b"through it")
        left.close()
        process.join(support.DEADLINE)
        if ctx.get_start_method() != "fork":
            break


@pytest.mark.parametrize("library", [std, mp], ids=["multiprocessing", "forklift"])
def test_a_passed_descriptor_makes_an_end_readable(library: Any) -> None:
    ours, theirs = library.Pipe()
    reduction.send_handle(ours, 0, os.getpid())
    assert theirs.poll(5)
    assert select.select([theirs], [], [], 5)[0] == [theirs]
    os.close(reduction.recv_handle(theirs))
    assert not theirs.poll()
    assert select.select([theirs], [], [], 0)[0] == []


@pytest.mark.parametrize("target", ["flood", "drain"])
def test_killed_at_any_moment(target: str) -> None:
    """The pipe goes on for whoever else is at the same end, whatever the killed one was doing."""
    ctx = mp.get_context("fork")
    receiver, sender = mp.Pipe(duplex=False)
    receiver.fileno()
    for i in range(25):
        end = sender if target == "flood" else receiver
        process = ctx.Process(target=getattr(pipe_targets, target), args=(end,))
        process.start()
        if target == "flood":
            for _ in range(i * 7 % 30):
                assert len(receiver.recv()) == 5000
        else:
            for _ in range(i * 7 % 30):
                sender.send(b"y" * 5000)
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        while receiver.poll():
            assert len(receiver.recv()) == 5000
        # And it is selectable as before.
        assert select.select([receiver], [], [], 0)[0] == []
        sender.send(b"z" * 5000)
        assert select.select([receiver], [], [], 5)[0] == [receiver]
        assert receiver.recv() == b"z" * 5000
    assert not forklift.audit()


def test_a_handler_that_raises_leaves_the_message() -> None:
    receiver, sender = mp.Pipe(duplex=False)

    class Alarm(Exception):
        pass

    def handler(_number: int, _frame: Any) -> None:
        raise Alarm

    before = signal.signal(signal.SIGALRM, handler)
    try:
        for seconds in (0.001, 0.02, 0.1):
            begin = time.monotonic()
            with pytest.raises(Alarm):  # noqa: PT012
                signal.setitimer(signal.ITIMER_REAL, seconds)
                receiver.recv()
            assert time.monotonic() - begin < seconds + 0.5
        sender.send_bytes(b"x" * 60_000)
        with pytest.raises(Alarm):  # noqa: PT012
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            sender.send_bytes(b"y" * 60_000)
        ran: list[int] = []
        signal.signal(signal.SIGALRM, lambda *_: ran.append(sender.send("from the handler")))  # type: ignore[func-returns-value]
        assert receiver.recv_bytes() == b"x" * 60_000
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        assert receiver.recv() == "from the handler"
        assert ran
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert not receiver.poll()


def test_listener_and_client_stay_the_standard_librarys() -> None:
    with connection.Listener() as listener:
        client: Any = None

        def connect() -> None:
            nonlocal client
            client = connection.Client(listener.address)

        thread = threading.Thread(target=connect)
        thread.start()
        accepted = listener.accept()
        thread.join()
        client.send([1, 2])
        assert accepted.recv() == [1, 2]
        client.close()
        accepted.close()

"""Pipes in one process: messages, errors and closing, with the standard library's as the control."""

from __future__ import annotations

import multiprocessing as std
import os
import pickle
import selectors
import socket
import threading
import time
from multiprocessing import connection as std_connection
from typing import Any

import forklift
import forklift.multiprocessing as mp
import numpy as np
import pytest
import support
from forklift.multiprocessing import connection

BOTH = pytest.mark.parametrize("library", [std, mp], ids=["multiprocessing", "forklift"])


@BOTH
@pytest.mark.parametrize("duplex", [True, False])
def test_messages_of_every_kind(library: Any, duplex: bool) -> None:
    receiver, sender = library.Pipe(duplex)
    pairs = [(receiver, sender), (sender, receiver)] if duplex else [(receiver, sender)]
    for end, other in pairs:
        for value in (None, 5, "ab", b"x" * 50_000, [1.5, {"k": (1, 2)}], {1, 2}, len):
            other.send(value)
            assert end.recv() == value
        other.send_bytes(pickle.dumps({"a": 1}))
        assert end.recv() == {"a": 1}
        other.send([1, 2, 3])
        assert pickle.loads(end.recv_bytes()) == [1, 2, 3]
        other.send_bytes(b"")
        assert end.poll(5)
        assert end.recv_bytes() == b""
    receiver.close()
    sender.close()


@BOTH
def test_parts_of_a_buffer(library: Any) -> None:
    receiver, sender = library.Pipe(duplex=False)
    data = b"abcdefgh"
    sender.send_bytes(data, 2)
    sender.send_bytes(data, 2, 3)
    sender.send_bytes(memoryview(data)[1:3])
    sender.send_bytes(np.arange(3, dtype="u4"))
    assert [receiver.recv_bytes() for _ in range(3)] == [b"cdefgh", b"cde", b"bc"]
    assert receiver.recv_bytes() == np.arange(3, dtype="u4").tobytes()
    for arguments, words in (
        ((-1,), "offset is negative"),
        ((9,), "buffer length < offset"),
        ((0, -1), "size is negative"),
        ((4, 5), "buffer length < offset . size"),
    ):
        with pytest.raises(ValueError, match=words):
            sender.send_bytes(data, *arguments)
    into = bytearray(10)
    sender.send_bytes(data)
    assert receiver.recv_bytes_into(into, 2) == 8
    assert into == b"\0\0" + data
    words_of_four = np.zeros(4, "u4")
    sender.send_bytes(data)
    assert receiver.recv_bytes_into(words_of_four, 4) == 8
    assert words_of_four.tobytes() == b"\0" * 4 + data + b"\0" * 4
    sender.send_bytes(data)
    with pytest.raises(std.BufferTooShort) as short:
        receiver.recv_bytes_into(into, 3)
    assert short.value.args[0] == data
    for offset, words in ((-1, "negative offset"), (11, "offset too large")):
        with pytest.raises(ValueError, match=words):
            receiver.recv_bytes_into(into, offset)
    with pytest.raises(ValueError, match="negative maxlength"):
        receiver.recv_bytes(-1)
    assert not receiver.poll()
    sender.send_bytes(data)
    assert receiver.recv_bytes(8) == data
    sender.send_bytes(data)
    with pytest.raises(OSError, match="bad message length"):
        receiver.recv_bytes(7)
    assert receiver.closed


@BOTH
def test_one_way_errors_and_closing(library: Any) -> None:
    receiver, sender = library.Pipe(duplex=False)
    assert (receiver.readable, receiver.writable) == (True, False)
    assert (sender.readable, sender.writable) == (False, True)
    for call in (sender.recv, sender.recv_bytes, sender.poll):
        with pytest.raises(OSError, match="connection is write-only"):
            call()
    with pytest.raises(OSError, match="connection is read-only"):
        receiver.send(1)
    with pytest.raises(OSError, match="connection is read-only"):
        receiver.send_bytes(b"1")
    with pytest.raises((AttributeError, pickle.PicklingError)):
        sender.send(lambda: 0)
    assert not receiver.poll()
    sender.send("last")
    with sender:
        pass
    assert sender.closed
    assert receiver.poll()
    assert receiver.recv() == "last"
    assert receiver.poll()
    assert receiver.poll(None)
    for call in (receiver.recv, receiver.recv_bytes, receiver.recv):
        with pytest.raises(EOFError):
            call()
    for end, call, *arguments in (
        (sender, "send", 1),
        (sender, "send_bytes", b""),
        (receiver, "recv"),
        (receiver, "recv_bytes"),
        (receiver, "poll"),
        (receiver, "fileno"),
    ):
        end.close()
        with pytest.raises(OSError, match=r"^handle is closed$"):
            getattr(end, call)(*arguments)
    receiver.close()
    sender.close()


@BOTH
def test_nobody_reads_any_more(library: Any) -> None:
    for duplex in (True, False):
        receiver, sender = library.Pipe(duplex)
        sender.send(1)
        receiver.close()
        for call in (lambda: sender.send(2), lambda: sender.send_bytes(b"2" * 100_000)):  # noqa: B023
            with pytest.raises(BrokenPipeError) as broken:
                call()
            assert str(broken.value) == "[Errno 32] Broken pipe"
        sender.close()


@BOTH
@pytest.mark.parametrize(
    ("arguments", "words"),
    [((-1,), "invalid handle"), ((0, False, False), "at least one of `readable` and `writable`")],
)
def test_connections_that_cannot_be(library: Any, arguments: Any, words: str) -> None:
    kind = connection.Connection if library is mp else std_connection.Connection
    with pytest.raises(ValueError, match=words):
        kind(*arguments)
    with pytest.raises((TypeError, AttributeError)):
        kind("1")


def test_a_connection_on_any_descriptor() -> None:
    here, there = socket.socketpair()
    mine = connection.Connection(here.detach())
    theirs = std_connection.Connection(there.detach())
    mine.send({"a": 1})
    assert theirs.recv() == {"a": 1}
    theirs.send_bytes(b"back")
    assert mine.poll(5)
    assert mine.recv_bytes() == b"back"
    assert isinstance(mine.fileno(), int)
    theirs.close()
    with pytest.raises(EOFError):
        mine.recv()
    mine.close()
    reader, writer = os.pipe()
    with connection.Connection(reader, writable=False) as incoming:
        os.write(writer, b"\0\0\0\1x")
        assert incoming.recv_bytes() == b"x"
        os.close(writer)
        assert incoming.poll(5)


def test_they_are_the_standard_librarys() -> None:
    first, second = mp.Pipe()
    assert isinstance(first, std_connection.Connection)
    assert isinstance(first, connection.Connection)
    assert connection.Listener is std_connection.Listener
    assert connection.Client is std_connection.Client
    assert connection.answer_challenge is std_connection.answer_challenge
    for name in vars(std_connection.Connection) | vars(std_connection._ConnectionBase):  # type: ignore[attr-defined]
        assert hasattr(first, name), name
    first.close()
    second.close()


def test_arrays_travel_through_shared_memory() -> None:
    receiver, sender = mp.Pipe(duplex=False)
    before = forklift.stats()
    array = np.random.default_rng(1).random(100_000)
    thread = threading.Thread(target=sender.send, args=({"array": array},))
    thread.start()
    got = receiver.recv()["array"]
    thread.join()
    assert (got == array).all()
    got[0] = 5  # private and writable
    after = forklift.stats()
    assert after["pipe_bytes"] == 0
    assert after["block_bytes"] - before["block_bytes"] >= array.nbytes
    tensor = forklift.zeros((3,))
    sender.send(tensor)
    receiver.recv().fill(7)
    assert tensor.tolist() == [7, 7, 7]


@BOTH
def test_back_pressure(library: Any) -> None:
    receiver, sender = library.Pipe(duplex=False)
    sent = []

    def send_all() -> None:
        for i in range(40):
            sender.send_bytes(bytes([i]) * 10_000)
            sent.append(i)

    thread = threading.Thread(target=send_all)
    thread.start()
    support.until(lambda: len(sent) >= 6, "the pipe takes 60 KB")
    support.until_asleep(thread.native_id)
    assert len(sent) < 12
    assert [receiver.recv_bytes()[0] for _ in range(40)] == list(range(40))
    thread.join()
    # What is larger than all the room goes as soon as there is nothing else.
    thread = threading.Thread(target=sender.send, args=(b"x" * 1_000_000,))
    thread.start()
    assert len(receiver.recv()) == 1_000_000
    thread.join()


@BOTH
@pytest.mark.parametrize("duplex", [False, True])
def test_a_large_message_is_a_rendezvous(library: Any, duplex: bool) -> None:
    """What no pipe could hold: send returns when it is being read."""
    receiver, sender = library.Pipe(duplex)
    for send, recv in ((sender.send_bytes, receiver.recv_bytes), (sender.send, receiver.recv)):
        thread = threading.Thread(target=send, args=(b"x" * 4_000_000,))
        thread.start()
        thread.join(0.3)
        assert thread.is_alive()
        assert len(recv()) == 4_000_000
        thread.join(support.DEADLINE)
        assert not thread.is_alive()


@BOTH
def test_both_ends_send_what_a_socket_holds(library: Any) -> None:
    """And only then receive: a program may count on it."""
    first, second = library.Pipe()
    for end in (first, second):
        end.send_bytes(b"x" * 100_000)
    for end in (first, second):
        assert len(end.recv_bytes()) == 100_000


def test_a_handle_is_no_large_message() -> None:
    receiver, sender = mp.Pipe(duplex=False)
    sender.send(forklift.zeros((1 << 20,)))
    assert receiver.recv().shape == (1 << 20,)


def test_who_waits_to_be_read_learns_that_nobody_will() -> None:
    receiver, sender = mp.Pipe()
    threading.Timer(0.1, receiver.close).start()
    with pytest.raises(BrokenPipeError):
        sender.send_bytes(b"x" * 4_000_000)


def test_a_thousand_small_messages_fit() -> None:
    receiver, sender = mp.Pipe(duplex=False)
    for i in range(7000):
        sender.send(i)
    assert [receiver.recv() for _ in range(7000)] == list(range(7000))
    assert not receiver.poll()


def test_a_waiting_sender_learns_that_nobody_reads() -> None:
    receiver, sender = mp.Pipe(duplex=False)
    sender.send_bytes(b"x" * 60_000)
    threading.Timer(0.1, receiver.close).start()
    with pytest.raises(BrokenPipeError):
        sender.send_bytes(b"x" * 60_000)


def test_larger_than_the_budget(small_budget: int) -> None:
    receiver, sender = mp.Pipe(duplex=False)
    for call in (sender.send, sender.send_bytes):
        with pytest.raises(MemoryError, match="budget") as refused:
            call(b"x" * (1 << 30))
        assert isinstance(refused.value, forklift.OverBudgetError)
    with pytest.raises(forklift.OverBudgetError):
        sender.send(np.zeros(2 * small_budget, "u1"))
    assert not receiver.poll()
    sender.send("goes on")
    assert receiver.recv() == "goes on"


def test_poll_waits_as_long_as_said() -> None:
    receiver, sender = mp.Pipe(duplex=False)
    for seconds in (0, 0.001, 0.2, -1, float("nan")):
        begin = time.monotonic()
        assert receiver.poll(seconds) is False
        assert time.monotonic() - begin < max(seconds, 0) + 0.3 if seconds == seconds else True
        if seconds > 0:
            assert time.monotonic() - begin >= seconds
    threading.Timer(0.05, sender.send, (1,)).start()
    assert receiver.poll(20) is True
    assert receiver.recv() == 1


def test_selectable_before_and_after_the_first_message() -> None:
    """Whatever was sent before the descriptor was asked for shows in it."""
    receiver, sender = mp.Pipe(duplex=False)
    sender.send(1)
    sender.send(2)
    with selectors.DefaultSelector() as selector:
        selector.register(receiver, selectors.EVENT_READ)
        for expected in (1, 2):
            assert selector.select(5)
            assert receiver.recv() == expected
        assert not selector.select(0)
        for i in range(300):  # more than a socket takes tokens
            sender.send(i)
        for i in range(300):
            assert selector.select(5)
            assert receiver.recv() == i
        assert not selector.select(0)
        thread = threading.Thread(target=lambda: [sender.send(i) for i in range(2000)])
        thread.start()
        for i in range(2000):
            assert selector.select(5)
            assert receiver.recv() == i
        thread.join()
        assert not selector.select(0)
        sender.close()
        assert selector.select(5)
        with pytest.raises(EOFError):
            receiver.recv()


def test_four_threads_at_each_end() -> None:
    receiver, sender = mp.Pipe(duplex=False)
    got: list[int] = []

    def take() -> None:
        while (value := receiver.recv()) is not None:
            got.append(value)

    takers = [threading.Thread(target=take) for _ in range(4)]
    putters = [
        threading.Thread(target=lambda n=n: [sender.send(n * 500 + i) for i in range(500)]) for n in range(4)
    ]
    for thread in takers + putters:
        thread.start()
    for thread in putters:
        thread.join()
    for _ in takers:
        sender.send(None)
    for thread in takers:
        thread.join()
    assert sorted(got) == list(range(2000))

"""What programs get wrong, and what comes of it: a clear answer, nothing leaked, the queue goes on."""

from __future__ import annotations

import gc
import os
import queue as queue_module
import struct
import subprocess
import sys
import threading
import time
from typing import Any

import forklift
import numpy as np
import pytest
import support
import targets
from forklift import _core
from forklift.multiprocessing import JoinableQueue, Queue, SimpleQueue, get_context
from forklift.multiprocessing import queues as our_queues
from hypothesis import given, settings
from hypothesis import strategies as st

# --- what cannot be pickled


@pytest.mark.parametrize(
    "value", [lambda: 0, threading.Lock(), targets.Unpicklable(), [1, targets.Unpicklable()]]
)
def test_unpicklable_goes_to_the_hook_and_the_queue_goes_on(
    value: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    queue = Queue(1)
    queue.put(value)
    assert "Traceback" in capfd.readouterr().err
    assert queue.empty()
    support.works(queue)  # the one place is free


def test_the_hook_gets_the_exception_and_the_object() -> None:
    seen = []

    class Hooked(our_queues.Queue):
        @staticmethod
        def _on_queue_feeder_error(error: BaseException, obj: object) -> None:
            seen.append((type(error), str(error), obj))

    queue = Hooked(ctx=get_context("fork"))
    bad = targets.Unpicklable()
    queue.put(bad)
    assert seen == [(TypeError, "not me", bad)]
    support.works(queue)


def test_strict_raises() -> None:
    queue = Queue(strict=True)
    with pytest.raises(TypeError, match="not me"):
        queue.put([np.zeros(100_000), targets.Unpicklable()])
    support.works(queue)
    joinable = JoinableQueue(strict=True)
    with pytest.raises(TypeError):
        joinable.put(targets.Unpicklable())
    joinable.join()


def test_an_unpicklable_object_for_a_full_queue_is_just_too_much() -> None:
    queue = Queue(1)
    queue.put(1)
    with pytest.raises(queue_module.Full):
        queue.put_nowait(targets.Unpicklable())


class Interrupting:
    def __reduce__(self) -> Any:
        raise KeyboardInterrupt


def test_an_interrupt_while_pickling_reaches_the_caller() -> None:
    queue = Queue()
    with pytest.raises(KeyboardInterrupt):
        queue.put(Interrupting())
    support.works(queue)


# --- memory


def test_an_array_larger_than_the_budget(small_budget: int) -> None:
    queue = Queue()
    start = time.monotonic()
    with pytest.raises(forklift.OverBudgetError, match="asked") as raised:
        queue.put(np.zeros(small_budget + 1, dtype="u1"))
    assert time.monotonic() - start < 1  # waiting would not help
    assert isinstance(raised.value, MemoryError)
    with pytest.raises(forklift.OverBudgetError):
        queue.put(b"x" * (small_budget + 1))
    with pytest.raises(forklift.OverBudgetError):
        forklift.empty([small_budget * 2])
    support.works(queue)


def test_put_waits_for_memory_and_then_raises(small_budget: int) -> None:
    queue = Queue()
    array = np.zeros(16 << 20, dtype="u1")
    put = 0
    with pytest.raises(forklift.OverBudgetError):  # noqa: PT012
        for _ in range(10):
            queue.put(array, timeout=0.2)
            put += 1
    assert put >= 1
    with pytest.raises(forklift.OverBudgetError):
        queue.put_nowait(array)
    waited = threading.Thread(target=queue.put, args=(array,))
    waited.start()
    for _ in range(put + 1):
        assert queue.get(timeout=5).nbytes == array.nbytes
    waited.join()
    support.works(queue)


# --- closed, broken, foreign


def test_a_closed_queue() -> None:
    for queue in (Queue(), JoinableQueue()):
        queue.put(1)
        queue.close()
        with pytest.raises(ValueError, match="is closed"):
            queue.put(1)
        with pytest.raises(ValueError, match="is closed"):
            queue.get()
    simple = SimpleQueue()
    simple.close()
    with pytest.raises(OSError, match="handle is closed"):
        simple.get()


def test_a_queue_that_was_never_opened() -> None:
    queue = our_queues.Queue.__new__(our_queues.Queue)
    with pytest.raises(ValueError, match="__init__"):
        queue.put(1)
    with pytest.raises(ValueError, match="__init__"):
        queue.qsize()


def test_a_queue_that_does_not_exist_any_more() -> None:
    queue = Queue()
    identity = queue._id()
    del queue
    gc.collect()
    ghost = our_queues.Queue.__new__(our_queues.Queue)
    with pytest.raises(ValueError, match="does not exist"):
        ghost._open(*identity)
    with pytest.raises(ValueError, match="does not exist"):
        ghost._open(2**24 - 1, 7)


def raw_message(value: Any) -> bytes:
    """The native codec's bytes of a value, as a queue would carry them."""
    queue = Queue()
    queue.put(value)
    return queue._take_raw()[1]


@pytest.mark.parametrize(
    ("codec", "data"),
    [
        (3, b""),
        (3, b"\xc1"),
        (3, b"\xd3\x00"),
        (3, b"\x01\x02"),
        (3, b"\xda\xff\xffab"),
        (3, b"\xdc\xff\xff"),
        (3, b"\xde\xff\xff\x01\x01"),
        (3, b"\xc9\xff\xff\xff\xff\x03"),
        (3, b"\xc9\x00\x00\x00\x10\x03" + bytes(16)),
        (3, b"\xc9\x00\x00\x00\x0c\x04" + struct.pack("<IQ", 0, 100)),
        (3, b"\xc9\x00\x00\x00\x0c\x05" + struct.pack("<IQ", 7, 1 << 60)),
        (3, b"\x91" * 1000 + b"\x01"),
        (4, b""),
        (4, struct.pack("<IIQ", 1 << 31, 0, 0)),
        (4, struct.pack("<IIQ", 0, 0xFFFFFFFE, 100)),
        (4, struct.pack("<IIQ", 0, 3, 100)),
        (4, struct.pack("<IIQQII", 1, 0xFFFFFFFE, 0, 1 << 62, 0, 0)),
        (2, b"\xc1"),
        (2, b"\xc7\xff\x01"),
        (9, b"whatever"),
    ],
)
def test_a_message_that_no_sender_writes(codec: int, data: bytes) -> None:
    queue = Queue()
    queue._put_raw(codec, data)
    with pytest.raises(forklift.CorruptError):
        queue.get(timeout=5)
    support.works(queue)


def test_a_cpp_message_names_the_remedy() -> None:
    queue = Queue()
    queue._put_raw(1, b"12345678")
    with pytest.raises(TypeError, match="C\\+\\+ type"):
        queue.get(timeout=5)
    support.works(queue)


ORIGINAL = {
    "a": [1, 2.5, "text", b"bytes", None, True],
    "t": (1, (2,)),
    "array": np.arange(12.0).reshape(3, 4),
}


@settings(max_examples=500, deadline=None)
@given(
    changes=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), min_size=1, max_size=4),
    cut=st.integers(0, 400),
)
def test_damaged_messages_never_harm(changes: list[tuple[int, int]], cut: int) -> None:
    data = bytearray(raw_message(ORIGINAL))
    for at, byte in changes:
        data[at % len(data)] = byte
    if cut < len(data) // 4:
        del data[cut:]
    queue = Queue()
    queue._put_raw(3, bytes(data))
    try:
        queue.get(timeout=5)
    except (forklift.CorruptError, UnicodeDecodeError, TypeError, ValueError):
        pass
    support.works(queue)


def altered_control(offset: int, value: bytes) -> int:
    """A control segment that differs from ours."""
    invitation = _core.invite()
    head = bytearray(os.pread(invitation.control, 4096, 0))
    size = os.fstat(invitation.control).st_size
    invitation.close()
    head[offset : offset + len(value)] = value
    fd = os.memfd_create("altered")
    os.ftruncate(fd, size)
    os.pwrite(fd, bytes(head), 0)
    return fd


@pytest.mark.parametrize(
    ("offset", "value", "error"),
    [
        (0, b"not ours", forklift.CorruptError),
        (8, struct.pack("<I", 999), forklift.VersionError),
        (24, struct.pack("<Q", 1 << 20), forklift.CorruptError),
    ],
)
def test_another_layout_is_refused(offset: int, value: bytes, error: type[Exception]) -> None:
    fd = altered_control(offset, value)
    code = f"""
import os, forklift
from forklift import _core
try:
    _core.join({fd}, os.memfd_create("data"), os.memfd_create("lock"), 1, 0)
except forklift.{error.__name__} as error:
    print("refused:", error)
"""
    result = subprocess.run(
        [sys.executable, "-c", code],
        pass_fds=[fd],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
    )
    os.close(fd)
    assert "refused:" in result.stdout, result.stderr


def test_a_second_domain_is_refused() -> None:
    fd = altered_control(0, b"")
    with pytest.raises(ValueError, match="another domain"):
        _core.join(fd, os.memfd_create("data"), os.memfd_create("lock"), 1, 0)

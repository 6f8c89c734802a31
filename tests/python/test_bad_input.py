"""What programs get wrong, and what comes of it: a clear answer, nothing leaked, the queue goes on."""

from __future__ import annotations

import gc
import os
import pickle
import queue as queue_module
import resource
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
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


def works(queue: Any) -> None:
    queue.put({"still": np.arange(10_000)})
    assert queue.get(timeout=5)["still"][-1] == 9_999


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
    works(queue)  # the one place is free


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
    works(queue)


def test_strict_raises() -> None:
    queue = Queue(strict=True)
    with pytest.raises(TypeError, match="not me"):
        queue.put([np.zeros(100_000), targets.Unpicklable()])
    works(queue)
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
    works(queue)


# --- memory


@pytest.fixture
def small_budget() -> Iterator[int]:
    budget = 64 << 20
    forklift.trim()
    forklift.set_budget(budget)
    yield budget
    forklift.set_budget(0)


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
    works(queue)


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
    works(queue)


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
    works(queue)


def test_a_cpp_message_names_the_remedy() -> None:
    queue = Queue()
    queue._put_raw(1, b"12345678")
    with pytest.raises(TypeError, match="C\\+\\+ type"):
        queue.get(timeout=5)
    works(queue)


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
    works(queue)


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


# --- signals


class Alarm(Exception):
    pass


@pytest.fixture
def alarm() -> Iterator[Any]:
    def handler(_number: int, _frame: Any) -> None:
        raise Alarm

    before = signal.signal(signal.SIGALRM, handler)
    yield lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("seconds", [0.001, 0.05, 0.15])
def test_a_handler_that_raises_during_get(alarm: Any, seconds: float) -> None:
    queue = Queue()
    start = time.monotonic()
    alarm(seconds)
    with pytest.raises(Alarm):
        queue.get()
    assert time.monotonic() - start < seconds + 2
    works(queue)
    assert queue.empty()
    alarm(seconds)
    with pytest.raises(Alarm):
        queue._reader.poll(None)


def test_a_handler_that_raises_during_put(alarm: Any) -> None:
    queue = Queue(1)
    queue.put("first")
    alarm(0.05)
    with pytest.raises(Alarm):
        queue.put(np.zeros(100_000))
    assert queue.get(timeout=5) == "first"
    assert queue.empty()  # the interrupted put left nothing
    works(queue)
    joinable = JoinableQueue()
    joinable.put(1)
    alarm(0.05)
    with pytest.raises(Alarm):
        joinable.join()


def test_a_handler_that_raises_while_memory_is_waited_for(alarm: Any, small_budget: int) -> None:
    queue = Queue()
    held = []
    array = np.zeros(16 << 20, dtype="u1")
    with pytest.raises(forklift.OverBudgetError):  # noqa: PT012
        while True:
            queue.put_nowait(array)
    alarm(0.05)
    with pytest.raises(Alarm):
        queue.put(array)
    while not queue.empty():
        held.append(queue.get())
    held.clear()
    works(queue)


def test_handlers_run_while_a_get_waits_and_the_get_goes_on() -> None:
    queue = Queue()
    ran = []
    before = signal.signal(signal.SIGALRM, lambda *_: ran.append(queue.put("from the handler")))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        assert queue.get(timeout=20) == "from the handler"
    finally:
        signal.signal(signal.SIGALRM, before)
    assert ran == [None]


@pytest.mark.usefixtures("alarm")
def test_alarms_at_any_moment_lose_and_double_nothing() -> None:
    """A producer's numbers arrive in order, whatever was interrupted."""
    queue = Queue(4)
    producer = get_context("fork").Process(target=targets.put_all, args=(queue, range(3000)))
    producer.start()
    got: list[int] = []
    armed = False

    def handler(_number: int, _frame: Any) -> None:
        if armed:
            raise Alarm

    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.0007, 0.0007)
    while got[-1:] != [2999] and not (producer.exitcode is not None and queue.empty()):
        value = None
        try:
            armed = True
            value = queue.get(timeout=1)
            armed = False
        except (Alarm, queue_module.Empty):
            armed = False
        if value is not None:
            got.append(value)
    signal.setitimer(signal.ITIMER_REAL, 0)
    producer.join()
    lost = set(range(3000)) - set(got)
    # A handler may run between the return of get() and the assignment: those are the program's.
    assert len(lost) < 300
    assert got == sorted(set(got))


# --- destructors, aborts


class PutsWhenDropped:
    def __init__(self, queue: Any) -> None:
        self.queue = queue

    def __del__(self) -> None:
        self.queue.put("dropped")


def test_put_from_a_destructor() -> None:
    queue = Queue()
    for _ in range(3):
        cycle: list[Any] = [PutsWhenDropped(queue)]
        cycle.append(cycle)
        del cycle
    gc.collect()
    assert [queue.get(timeout=5) for _ in range(3)] == ["dropped"] * 3
    thing = PutsWhenDropped(queue)
    queue.put([thing.__class__.__name__, np.zeros(50_000)])
    del thing
    queue.get(timeout=5)
    assert queue.get(timeout=5) == "dropped"


def test_core_dumps_are_small_and_an_abort_stalls_nobody(tmp_path: Any) -> None:
    context = get_context("fork")
    queue, ready = context.Queue(4), context.Queue()
    child = context.Process(target=targets.abort_while_putting, args=(queue, ready, str(tmp_path)))
    child.start()
    ready.get(timeout=10)
    start = time.monotonic()
    while child.exitcode is None and time.monotonic() - start < 30:
        try:
            queue.get(timeout=0.1)
        except queue_module.Empty:
            child.join(0)
    child.join(10)
    assert child.exitcode == -signal.SIGABRT
    forklift.reap()
    while not queue.empty():
        queue.get()
    works(queue)
    assert time.monotonic() - start < 30
    for core in tmp_path.iterdir():
        # Of the segments, which are mapped by the terabyte, nothing is dumped.
        assert core.stat().st_blocks * 512 < 300 << 20


@pytest.mark.parametrize("when", ["getting", "putting"])
def test_a_killed_process_holds_up_nobody(ctx: Any, when: str) -> None:
    queue, ready = ctx.Queue(8), ctx.Queue()
    target = targets.block_in_get if when == "getting" else targets.put_for_ever
    arguments = (queue, ready) if when == "getting" else (queue, np.zeros(20_000))
    for _ in range(5):
        child = ctx.Process(target=target, args=arguments)
        child.start()
        if when == "getting":
            ready.get(timeout=20)
        else:
            support.until(queue.full, "a full queue")
        child.kill()
        child.join(support.DEADLINE)
        assert child.exitcode == -signal.SIGKILL
        while not queue.empty():
            queue.get(timeout=5)
        works(queue)


def test_few_descriptors_are_enough() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(support.descriptors())
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 3, hard))
    try:
        queues = [Queue() for _ in range(50)]
        for queue in queues:
            works(queue)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_no_descriptor_left_for_a_child_is_an_error_not_a_hang() -> None:
    context = get_context("spawn")
    queue = context.Queue()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(support.descriptors()) + 20, hard))
    taken = []
    try:
        while True:
            try:
                taken.append(os.open("/dev/null", os.O_RDONLY))
            except OSError:
                break
        with pytest.raises(OSError, match="Too many open files"):
            context.Process(target=targets.put_one, args=(queue, 1)).start()
    finally:
        for fd in taken:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    works(queue)


def test_a_received_array_pickles_like_any_other() -> None:
    queue = Queue()
    queue.put(np.arange(100_000))
    array = queue.get(timeout=5)
    assert (pickle.loads(pickle.dumps(array, 5)) == array).all()

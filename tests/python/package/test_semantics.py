"""What a program sees of a queue, the standard library's being the control."""

from __future__ import annotations

import inspect
import multiprocessing
import pickle
import queue as queue_module
import threading
import time
from typing import Any

import pytest
import support
import targets


def finish(queue: Any) -> None:
    """The standard library's queues leave threads and pipes behind that its finalizers would end later."""
    if hasattr(queue, "join_thread"):
        queue.close()
        queue.join_thread()


def test_first_in_first_out(either: Any) -> None:
    queue = either.Queue()
    for i in range(100):
        queue.put(i)
    assert [queue.get(timeout=5) for _ in range(100)] == list(range(100))
    finish(queue)


def test_full_and_empty(either: Any) -> None:
    queue = either.Queue(2)
    assert queue.empty()
    assert not queue.full()
    queue.put(1)
    queue.put(2, True, 1)
    assert queue.full()
    assert queue.qsize() == 2
    for arguments in ((3, False), (3, True, 0.05), (3, True, 0), (3, True, -1)):
        with pytest.raises(queue_module.Full):
            queue.put(*arguments)
    with pytest.raises(queue_module.Full):
        queue.put_nowait(3)
    assert queue.get(timeout=5) == 1
    assert queue.get(True, 5) == 2
    for arguments in ((False,), (True, 0.05), (True, 0), (True, -1)):
        with pytest.raises(queue_module.Empty):
            queue.get(*arguments)
    with pytest.raises(queue_module.Empty):
        queue.get_nowait()
    assert queue.empty()
    assert queue.qsize() == 0
    finish(queue)


@pytest.mark.parametrize("kind", ["Queue", "JoinableQueue"])
def test_empty_after_close(either: Any, kind: str) -> None:
    """An error if this process had put something."""
    unused = getattr(either, kind)()
    unused.close()
    unused.join_thread()
    assert unused.empty()
    used = getattr(either, kind)()
    used.put(1)
    used.close()
    used.join_thread()
    with pytest.raises(OSError, match="is closed"):
        used.empty()
    with pytest.raises(ValueError, match="is closed"):
        used.get()


def test_time_outs_take_their_time(either: Any) -> None:
    queue = either.Queue(1)
    start = time.monotonic()
    with pytest.raises(queue_module.Empty):
        queue.get(timeout=0.1)
    assert 0.09 <= time.monotonic() - start < 5
    queue.put(1)
    start = time.monotonic()
    with pytest.raises(queue_module.Full):
        queue.put(2, timeout=0.1)
    assert 0.09 <= time.monotonic() - start < 5
    queue.get(timeout=5)
    finish(queue)


@pytest.mark.parametrize("maxsize", [0, -1, -100])
def test_no_bound(either: Any, maxsize: int) -> None:
    queue = either.Queue(maxsize)
    for i in range(3000):
        queue.put_nowait(i)
    assert not queue.full()
    for i in range(3000):
        assert queue.get(timeout=5) == i
    finish(queue)


@pytest.mark.parametrize("maxsize", ["1", None, 1.5, 2**40])
def test_a_wrong_bound(either: Any, maxsize: Any) -> None:
    with pytest.raises((TypeError, OverflowError, ValueError, OSError)):
        either.Queue(maxsize)


@pytest.mark.parametrize(
    "call",
    [
        "put()",
        "put(1, 2, 3, 4)",
        "put(1, nonsense=2)",
        "put(1, obj=1)",
        "get(1, 2, 3)",
        "get(nonsense=1)",
        "get(True, 'soon')",
    ],
)
def test_wrong_arguments(either: Any, call: str) -> None:
    queue = either.Queue()
    with pytest.raises(TypeError):
        eval(f"queue.{call}", {"queue": queue})
    finish(queue)


def test_keyword_arguments(either: Any) -> None:
    queue = either.Queue(1)
    queue.put(obj=1, block=True, timeout=1.0)
    with pytest.raises(queue_module.Full):
        queue.put(obj=2, block=False)
    assert queue.get(block=True, timeout=5) == 1
    with pytest.raises(queue_module.Empty):
        queue.get(block=False, timeout=5)
    finish(queue)


def test_closed(either: Any) -> None:
    queue = either.Queue()
    queue.put(1)
    queue.get(timeout=5)
    queue.close()
    for call in (
        lambda: queue.put(1),
        lambda: queue.get(),
        lambda: queue.put_nowait(1),
        lambda: queue.get_nowait(),
    ):
        with pytest.raises(ValueError, match=r"Queue <.*> is closed"):
            call()
    queue.close()
    queue.join_thread()


def test_join_thread_before_close(either: Any) -> None:
    queue = either.Queue()
    with pytest.raises(AssertionError, match="not closed"):
        queue.join_thread()
    queue.cancel_join_thread()
    finish(queue)


def test_pickled_outside_of_spawning(either: Any) -> None:
    for queue in (either.Queue(), either.JoinableQueue(), either.SimpleQueue()):
        with pytest.raises(RuntimeError, match="should only be shared between processes through inheritance"):
            pickle.dumps(queue)
        finish(queue) if hasattr(queue, "join_thread") else queue.close()


def test_joinable(either: Any) -> None:
    queue = either.JoinableQueue()
    queue.join()
    workers = [either.Process(target=targets.task_worker, args=(queue, 20)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for i in range(40):
        queue.put(i)
    queue.join()
    for worker in workers:
        worker.join(support.DEADLINE)
    with pytest.raises(ValueError, match=r"task_done\(\) called too many times"):
        queue.task_done()
    finish(queue)


def test_join_waits_for_the_last_task(either: Any) -> None:
    queue = either.JoinableQueue()
    queue.put(1)
    queue.put(2)
    queue.get(timeout=5)
    queue.task_done()
    joined = threading.Event()
    thread = threading.Thread(target=lambda: (queue.join(), joined.set()))
    thread.start()
    assert not joined.wait(0.1)
    queue.get(timeout=5)
    queue.task_done()
    assert joined.wait(5)
    thread.join()
    finish(queue)


def test_simple_queue(either: Any) -> None:
    queue = either.SimpleQueue()
    assert queue.empty()
    queue.put([1, 2])
    assert not queue.empty()
    assert queue.get() == [1, 2]
    queue.close()
    for call in (lambda: queue.put(1), queue.get, queue.empty):
        with pytest.raises(OSError, match="handle is closed"):
            call()


def test_simple_queue_holds_a_pipe_full(either: Any) -> None:
    queue = either.SimpleQueue()
    done = threading.Event()

    def fill() -> None:
        for _ in range(30):
            queue.put(b"x" * 10_000)
        done.set()

    thread = threading.Thread(target=fill)
    thread.start()
    assert not done.wait(0.2)  # 300 KB do not fit
    for _ in range(30):
        queue.get()
    assert done.wait(5)
    thread.join()
    queue.close()


def test_a_simple_queue_takes_more_than_it_holds(either: Any) -> None:
    queue = either.SimpleQueue()
    thread = threading.Thread(target=queue.put, args=(b"x" * 1_000_000,))
    thread.start()
    assert len(queue.get()) == 1_000_000
    thread.join()
    queue.close()


def test_unpicklable_in_a_simple_queue(either: Any) -> None:
    queue = either.SimpleQueue()
    with pytest.raises(TypeError, match="not me"):
        queue.put(targets.Unpicklable())
    queue.put(1)
    assert queue.get() == 1
    queue.close()


def test_what_fails_to_unpickle_is_gone(either: Any) -> None:
    queue = either.Queue()
    queue.put(targets.BadOnArrival())
    queue.put("next")
    with pytest.raises(RuntimeError, match="on purpose"):
        queue.get(timeout=5)
    assert queue.get(timeout=5) == "next"
    finish(queue)


def test_many_producers_and_consumers(either: Any) -> None:
    queue, answer = either.Queue(16), either.Queue()
    producers = [
        either.Process(target=targets.put_all, args=(queue, range(i * 500, i * 500 + 500))) for i in range(3)
    ]
    consumers = [either.Process(target=targets.take, args=(queue, 500, answer)) for _ in range(3)]
    for process in producers + consumers:
        process.start()
    assert [answer.get(timeout=60) for _ in range(3)] == [500] * 3
    for process in producers + consumers:
        process.join(support.DEADLINE)
    assert queue.empty()
    finish(queue)
    finish(answer)


def test_many_threads(either: Any) -> None:
    queue = either.Queue(8)
    got: list[int] = []
    lock = threading.Lock()

    def produce(base: int) -> None:
        for i in range(300):
            queue.put(base + i)

    def consume() -> None:
        for _ in range(300):
            value = queue.get(timeout=30)
            with lock:
                got.append(value)

    threads = [threading.Thread(target=produce, args=(i * 1000,)) for i in range(3)]
    threads += [threading.Thread(target=consume) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got) == sorted(i * 1000 + j for i in range(3) for j in range(300))
    finish(queue)


def test_private_names_are_there(either: Any) -> None:
    queue = either.Queue(3)
    queue.put(1)
    support.until(lambda: queue._reader.poll(), "the object")
    assert queue._reader.poll(0.1)
    assert queue._reader.recv() == 1
    for name in (
        "_maxsize",
        "_writer",
        "_rlock",
        "_wlock",
        "_sem",
        "_notempty",
        "_buffer",
        "_opid",
        "_closed",
        "_ignore_epipe",
    ):
        assert hasattr(queue, name), name
    assert queue._maxsize == 3
    finish(queue)
    simple = either.SimpleQueue()
    simple._writer.send("x")
    assert simple._reader.poll(1)
    assert simple._reader.recv() == "x"
    assert isinstance(simple._reader.fileno(), int)
    simple._reader.close()
    assert simple._reader.closed
    with pytest.raises(OSError, match="handle is closed"):
        simple._reader.recv()
    simple.close()


def test_signatures_are_the_standard_librarys() -> None:
    import forklift.multiprocessing as ours

    theirs = multiprocessing.get_context("fork")
    for kind in ("Queue", "JoinableQueue", "SimpleQueue"):
        their_class, our_class = type(getattr(theirs, kind)()), type(getattr(ours, kind)())
        assert issubclass(our_class, their_class)
        for name, function in inspect.getmembers(their_class, inspect.isfunction):
            if name.startswith("_"):
                continue
            wanted = [p.name for p in inspect.signature(function).parameters.values()]
            # What we add (as_) can only be given by name.
            ours_has = inspect.signature(getattr(our_class, name)).parameters.values()
            given = [p.name for p in ours_has if p.kind is not p.KEYWORD_ONLY]
            assert given == wanted, (kind, name)


def test_wait_on_a_queues_descriptor(either: Any) -> None:
    from multiprocessing.connection import wait

    queue = either.SimpleQueue()
    reader = queue._reader
    assert wait([reader], 0.05) == []
    child = either.Process(target=targets.put_all, args=(queue, ["a", "b"]))
    child.start()
    for wanted in "ab":
        assert wait([reader], support.DEADLINE)
        assert reader.recv() == wanted
    assert wait([reader], 0.05) == []
    child.join()
    queue.close()

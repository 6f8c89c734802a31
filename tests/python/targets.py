"""Functions that the tests' children run; fresh interpreters import them from here."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import forklift
import numpy as np

STOP = "stop, please"


def put_one(queue: Any, value: Any) -> None:
    queue.put(value)


def put_all(queue: Any, values: Any) -> None:
    for value in values:
        queue.put(value)


def echo(there: Any, back: Any) -> None:
    while True:
        value = there.get()
        if isinstance(value, str) and value == STOP:
            return
        back.put(value)


def take(queue: Any, count: int, answer: Any) -> None:
    for _ in range(count):
        queue.get()
    answer.put(count)


def io_bytes() -> int:
    """The bytes that this process has moved by read and write calls."""
    with open("/proc/self/io") as io:
        figures = dict(line.split(": ") for line in io.read().splitlines())
    return int(figures["rchar"]) + int(figures["wchar"])


def sums_and_io(queue: Any, answer: Any) -> None:
    """Answer each array with its sum and the bytes that this process read and wrote to get it."""
    while True:
        before = io_bytes()
        array = queue.get()
        if array is None:
            return
        moved = io_bytes() - before
        answer.put((float(array.sum()), array.nbytes, moved, forklift.stats()["pipe_bytes"]))


def fill_tensor(queue: Any, answer: Any, value: float) -> None:
    tensor = queue.get()
    tensor.fill(value)
    del tensor
    answer.put("done")


def task_worker(queue: Any, count: int) -> None:
    for _ in range(count):
        queue.get()
        queue.task_done()


def block_in_get(queue: Any, ready: Any) -> None:
    ready.put(os.getpid())
    queue.get()


def put_for_ever(queue: Any, value: Any) -> None:
    while True:
        queue.put(value)


def abort_while_putting(queue: Any, ready: Any, folder: str) -> None:
    import faulthandler
    import resource

    faulthandler.disable()
    resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    os.chdir(folder)
    ready.put(os.getpid())
    threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGABRT)).start()
    put_for_ever(queue, np.zeros(100_000))


def nested(context_name: str, queue: Any) -> None:
    """In a child: make a queue, and a child that puts into it."""
    from forklift.multiprocessing import get_context

    context = get_context(context_name)
    inner = context.Queue()
    process = context.Process(target=put_one, args=(inner, np.arange(50_000)))
    process.start()
    array = inner.get(timeout=20)
    process.join()
    queue.put((process.exitcode, array))


def start_daemon(context_name: str, queue: Any) -> None:
    """In a child: start a daemon, which runs a busy loop as long as it lives."""
    from forklift.multiprocessing import get_context

    daemon = get_context(context_name).Process(target=busy, daemon=True)
    daemon.start()
    queue.put(daemon.pid)
    daemon.join()


def busy() -> None:
    while True:
        pass


def use_table(table: Any) -> None:
    """Use a manager's dict in a child."""
    assert table["here"] != os.getpid()
    table["there"] = os.getpid()
    table["native"] = table._tls.connection._native


class ExitsWhenUnpickled:
    def __reduce__(self) -> Any:
        return (os._exit, (7,))


class RaisesWhenUnpickled:
    def __reduce__(self) -> Any:
        return (raise_it, ())


def raise_it() -> None:
    raise ValueError("cannot be made")


def square(x: Any) -> Any:
    return x * x


def full_of(value: float) -> Any:
    return np.full(100_000, value)


def fail(_x: Any) -> Any:
    raise RuntimeError("on purpose")


def die(_x: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


class Unpicklable:
    def __reduce__(self) -> Any:
        raise TypeError("not me")


class BadOnArrival:
    """Can be pickled, but not unpickled."""

    def __reduce__(self) -> Any:
        return (fail, (1,))


class Point:
    def __init__(self, x: int) -> None:
        self.x = x


def make_point(x: int) -> Point:
    return Point(x + 100)


class PutsWhilePickled:
    queue: Any = None

    def __reduce__(self) -> Any:
        type(self).queue.put("inner")
        return (int, (7,))


class Tagged(np.ndarray):
    """A subclass that keeps an attribute through pickling."""

    tag = ""

    def __reduce__(self) -> Any:
        rebuild, arguments, state = super().__reduce__()  # type: ignore[misc]
        return (rebuild, arguments, (*state, self.tag))

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state[:-1])
        self.tag = state[-1]


def set_values(values: Any, numbers: Any) -> None:
    for value, number in zip(values, numbers, strict=True):
        value.value = number


def double_all(numbers: Any, text: Any) -> None:
    for i in range(len(numbers)):
        numbers[i] *= 2
    text.value = text.value.upper()


def move_points(point: Any, points: Any, raw: Any) -> None:
    point.x *= 2
    point.y *= 2
    for i in range(len(points)):
        points[i].y = i
    raw.x *= 2


def increment(counter: Any, times: int) -> None:
    for _ in range(times):
        with counter.get_lock():
            counter.value += 1


def hold(thing: Any, ready: Any) -> None:
    """Keep `thing` until this process is killed."""
    ready.put(0)
    threading.Event().wait(600)
    del thing


class Holder:
    """An object that only pickle can encode."""

    def __init__(self, value: Any) -> None:
        self.value = value


def read_frozen(frozen: Any, words: Any, array: Any, results: Any) -> None:
    failures = []
    for attempt in (lambda: array.__setitem__(0, 1), lambda: setattr(array.flags, "writeable", True)):
        try:
            attempt()
        except Exception as error:
            failures.append(type(error).__name__)
    results.put((len(frozen["words"]), words[-1], int(array[-1]), *failures))


_kept: Any = None


def keep_it(value: Any) -> None:
    global _kept
    _kept = value


def word_of_kept(i: int) -> Any:
    return _kept["words"][i]


def word_of(frozen: Any, i: int) -> Any:
    return frozen["words"][i]


def freeze_it(value: Any) -> Any:
    return forklift.freeze(value)


def add_one(arrays: Any) -> None:
    for array in arrays:
        array += 1


def add_to_kept(i: int) -> None:
    _kept[i] += 1


def lend_back(there: Any, back: Any) -> None:
    while (got := there.get(timeout=60)) is not None:
        with back.loan(got.shape, got.dtype) as a:
            a[...] = got * 2
        del got, a


def fill_for_ever(queue: Any, ready: Any) -> None:
    with queue.loan(100_000) as a:
        a[:] = 1
        ready.put(0)
        threading.Event().wait(600)


def wait_for_event(event: Any, began: Any, answer: Any) -> None:
    began.put(None)
    answer.put(event.wait(30))

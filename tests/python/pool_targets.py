"""Functions that pools' workers run in the tests; fresh interpreters import them from here."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import forklift.multiprocessing as mp
from forklift.multiprocessing.pool import worker_id

told: list[Any] = []


def square(x: Any) -> Any:
    return x * x


def add(x: Any, y: Any = 0) -> Any:
    return x + y


def same(x: Any) -> Any:
    return x


def pid_of(_: Any = None) -> int:
    return os.getpid()


def who(_: Any = None) -> int:
    time.sleep(0.05)
    return worker_id()


def nap(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


class Unlistable:
    def __len__(self) -> int:
        return 3

    def __iter__(self) -> Any:
        raise ValueError("no items")


def spin(seconds: float) -> float:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass
    return seconds


def fail(x: Any) -> None:
    raise ValueError(f"no {x}")  # the line that fails


def die(how: int) -> None:
    os.kill(os.getpid(), how)
    threading.Event().wait()


def die_at(x: int) -> int:
    if x == 7:
        die(signal.SIGKILL)
    return x


def leave(code: int) -> None:
    sys.exit(code)


def die_once(path: str) -> str:
    """Die at the first call."""
    if not Path(path).exists():
        Path(path).touch()
        die(signal.SIGKILL)
    return "done"


def wait_once(path: str) -> str:
    if not Path(path).exists():
        Path(path).touch()
        time.sleep(60)
    return "done"


class Picky(Exception):
    """An exception whose pickle cannot be read: __init__ wants more arguments than `args` has."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(first)


def raise_picky(_: Any = None) -> None:
    raise Picky("one", "two")


class Unpicklable(Exception):
    def __reduce__(self) -> Any:
        raise RuntimeError("will not be pickled")


def raise_unpicklable(_: Any = None) -> None:
    raise Unpicklable("inside")


def refuse() -> Any:
    raise OSError("will not be unpickled here")


class Unreadable:
    def __reduce__(self) -> Any:
        return (refuse, ())


def make_unreadable(_: Any = None) -> Any:
    return Unreadable()


def make_lambda(_: Any = None) -> Any:
    return lambda: 42


class Shy:
    def __repr__(self) -> str:
        raise LookupError("no text")


class Counter:
    """A callable with state."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, _: Any) -> int:
        self.calls += 1
        return self.calls


def tell(*what: Any) -> None:
    told.extend(what)


def what_was_told() -> list[Any]:
    return told


def mark_shared(place: int) -> tuple[str, float]:
    """Into the array that the initializer was told of; out of the frozen things."""
    array, frozen = told
    array[place] += 1
    return frozen["names"][1], float(frozen["weights"].sum())


def add_named(named: dict[str, int]) -> Any:
    return add(**named)


def write_down(path: str) -> None:
    told.append(path)


def finish() -> None:
    Path(told[0]).write_text("finished")


def bad_start(*_: Any) -> None:
    raise RuntimeError("cannot be made ready")


def slow_start(path: str) -> None:
    """At the first start, wait to be killed."""
    try:
        Path(path).touch(exist_ok=False)
    except FileExistsError:
        return
    Path(path).write_text(str(os.getpid()))
    time.sleep(60)


def pass_gate(turn: tuple[int, str]) -> int:
    """Wait until the file exists."""
    number, path = turn
    while not Path(path).exists():
        time.sleep(0.01)
    return number


def grow(megabytes: int) -> int:
    told.append(bytearray(megabytes << 20))
    return os.getpid()


def cpus(_: Any = None) -> list[int]:
    return sorted(os.sched_getaffinity(0))


def nested(_: Any = None) -> list[int]:
    with mp.get_context("fork").Pool(1) as pool:
        return list(pool.map(square, [1, 2, 3]))


def log(text: str) -> None:
    logging.getLogger("pool.test").warning("%s", text)


def log_to(name: str) -> None:
    logging.getLogger(name).warning("to %s", name)


def put_down(path: str) -> int:
    Path(path).write_text(str(os.getpid()))
    time.sleep(60)
    return 0


def handle_signals() -> None:
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)


def is_main_thread(_: Any = None) -> bool:
    return threading.current_thread() is threading.main_thread()


def keep(*shared: Any) -> None:
    """An initializer: what tasks find in told."""
    told[:] = shared


def use_kept(x: int) -> Any:
    queue, stream, latest = told
    queue.put(x)
    stream.put(x * 10)
    return latest.peek(), x


def refuse_negative(x: int) -> int:
    if x < 0:
        raise LookupError("negative")
    return x


def refuse_any(_: Any) -> None:
    raise LookupError("no")

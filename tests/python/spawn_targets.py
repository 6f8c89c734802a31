"""What the ranks of the spawn tests run. A fresh interpreter imports this module, so it imports no torch."""

from __future__ import annotations

import importlib
import os
import select
import signal
import sys
import threading
from typing import Any


class OwnError(Exception):
    """Unpickles, other than `Unpicklable`."""

    def __init__(self, text: str, number: int) -> None:
        super().__init__(text, number)
        self.number = number


class Unpicklable(Exception):
    def __init__(self, _one: int, _two: int) -> None:
        super().__init__("only one argument is kept")


class OwnBase(BaseException):
    pass


def nothing(rank: int) -> None:
    pass


def put_rank(rank: int, queue: Any) -> None:
    queue.put(rank)


def wait_for_ever(rank: int, ready: Any) -> None:
    ready.put((rank, os.getpid()))
    while True:
        signal.pause()


def ignore_sigterm(rank: int, ready: Any, which: int) -> None:
    if rank == which:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    ready.put((rank, os.getpid()))
    if rank != which:
        os._exit(3)
    while True:
        signal.pause()


def fail(rank: int, ready: Any, go: Any, which: int, how: str) -> None:
    """All are there; then one of them ends in some way, and the others never do."""
    ready.put((rank, os.getpid()))
    if rank != which:
        while True:
            signal.pause()
    go.get()
    fail_now(rank, how)


def fail_now(rank: int, how: str) -> None:
    if how == "raise":
        raise ValueError(f"legitimate exception from process {rank}")
    if how == "own":
        raise OwnError("of our own", 42)
    if how == "unpicklable":
        raise Unpicklable(1, 2)
    if how == "local":

        class Local(Exception):
            pass

        raise Local("defined in a function")
    if how == "chained":
        try:
            raise KeyError("the first")
        except KeyError as error:
            raise RuntimeError("the second") from error
    if how == "base":
        raise OwnBase("no Exception")
    if how == "huge":
        raise RuntimeError("x" * (100 << 20))
    if how == "interrupt":
        raise KeyboardInterrupt
    if how == "exit":
        sys.exit(7)
    if how == "exit text":
        sys.exit("a text")
    if how == "exit 0":
        sys.exit(0)
    if how == "_exit":
        os._exit(9)
    if how in ("SIGKILL", "SIGTERM", "SIGUSR1"):
        os.kill(os.getpid(), getattr(signal, how))
        threading.Event().wait()
    if how == "SIGRTMIN+5":
        os.kill(os.getpid(), signal.SIGRTMIN + 5)
        threading.Event().wait()


def fail_all(rank: int, ready: Any, go: Any) -> None:
    ready.put(rank)
    go.get()
    raise ValueError(f"legitimate exception from process {rank}")


def leave_in_grace(rank: int, ready: Any, event: Any, out: Any) -> None:
    """Rank 0 fails; the others see that by themselves, and clean up."""
    ready.put(rank)
    if rank == 0:
        event.wait()
        os._exit(5)
    event.wait()
    out.put(rank)


def two_failures(rank: int, ready: Any, event: Any) -> None:
    ready.put(rank)
    if rank == 0:
        event.wait()
        raise ValueError("the first")
    event.wait()
    raise KeyError(f"of rank {rank}")


def same_objects(rank: int, first: Any, second: Any, out: Any) -> None:
    out.put((rank, first is second, first))


def write_shared(rank: int, *args: Any) -> None:
    tensors, array, queue = args
    tensors[0][rank] = rank + 1
    array[rank] = 10 * (rank + 1)
    queue.put((rank, float(tensors[1][rank]), tensors[0].data_ptr() == tensors[1].data_ptr()))


def length(rank: int, items: Any, queue: Any) -> None:
    queue.put((rank, sum(map(len, items))))


def nested(rank: int, module: str, method: str, pids: Any, stubborn: bool) -> None:
    """Starts ranks of its own and waits for them."""
    mp = importlib.import_module(module)
    ready = mp.get_context(method).SimpleQueue()
    context = mp.start_processes(nested_child, (ready, stubborn), 2, join=False, start_method=method)
    for _ in range(2):
        ready.get()
    pids.put((rank, os.getpid(), context.pids()))
    while not context.join():
        pass


def nested_child(rank: int, ready: Any, stubborn: bool) -> None:
    if stubborn:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    ready.put(rank)
    while True:
        signal.pause()


def clean_up(rank: int, ready: Any, sibling: Any, path: str) -> None:
    """Rank 0 writes to a named pipe that it has cleaned up, for which it waits until rank 1 has ended.

    It opens the pipe before the parent ends: a file system may take longer than a rank has.
    """
    if rank == 1:
        try:
            sibling.put(os.getpid())
            wait_for_an_interrupt()
        finally:
            os._exit(0)
    told = os.open(path, os.O_WRONLY)
    pid = sibling.get()
    end = os.pidfd_open(pid)
    try:
        ready.put([os.getpid(), pid])
        wait_for_an_interrupt()
    finally:
        select.select([end], [], [])
        os.write(told, b"cleaned up")


def wait_for_an_interrupt() -> None:
    while True:  # a signal that comes just before a call that blocks does not end it
        select.select([], [], [], 0.02)


def thread_name(rank: int, queue: Any) -> None:
    import forklift.multiprocessing as mp

    queue.put((rank, mp._get_thread_name(), os.sched_getaffinity(0)))


def has_torch(rank: int, queue: Any) -> None:
    queue.put("torch" in sys.modules)


class CannotUnpickle:
    def __reduce__(self) -> Any:
        return _raise, ("not here",)


def _raise(text: str) -> None:
    raise RuntimeError(text)

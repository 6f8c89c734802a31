"""Executors for the tests, and the functions that their workers run; fresh interpreters import these."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import forklift
import forklift.multiprocessing

begun: list[Any] = []


class Kind:
    """An executor's class, with a context that fits it."""

    def __init__(self, ours: bool, method: str) -> None:
        self.ours, self.method = ours, method

    def __call__(self, workers: int | None = 2, **options: Any) -> Any:
        module: Any = forklift.multiprocessing if self.ours else multiprocessing
        kind: Any = forklift.ProcessPoolExecutor if self.ours else concurrent.futures.ProcessPoolExecutor
        return kind(workers, mp_context=module.get_context(self.method), **options)


def square(x: Any) -> Any:
    return x * x


def both(*args: Any, **kwargs: Any) -> Any:
    return args, kwargs


def add_in_place(array: Any) -> Any:
    array += 1
    return array


def fail(x: Any) -> Any:
    raise ValueError(f"no {x}")


def leave(code: int) -> None:
    sys.exit(code)


def die(_: Any = None) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_once(folder: str, value: Any) -> Any:
    """The first call with this value kills its worker."""
    mark = Path(folder) / str(value)
    if not mark.exists():
        mark.touch()
        die()
    return value


def pid(_: Any = None) -> int:
    return os.getpid()


def pid_after_a_while() -> int:
    """Lets the other workers have a call, too."""
    time.sleep(0.02)
    return os.getpid()


def wait_for(folder: str, name: str, begun: str = "") -> str:
    """Wait until a file is there. `begun`: a file that is made before."""
    if begun:
        (Path(folder) / begun).touch()
    while not (Path(folder) / name).exists():
        time.sleep(0.002)
    return name


def note(value: Any) -> None:
    begun.append(value)


def noted() -> list[Any]:
    return begun


def refuse(value: Any) -> None:
    raise RuntimeError(f"cannot begin with {value}")


class Unpicklable:
    def __reduce__(self) -> Any:
        raise TypeError("not to be pickled")


class Unreadable:
    """Fails where it is unpickled."""

    def __reduce__(self) -> Any:
        return _unread, ()


def _unread() -> None:
    raise LookupError("not to be unpickled")


def unpicklable(_: Any = None) -> Any:
    return Unpicklable()


def unreadable(_: Any = None) -> Any:
    return Unreadable()


class OddError(Exception):
    """Its pickle cannot be read: it needs two arguments, and pickle gives one."""

    def __init__(self, one: Any, two: Any) -> None:
        super().__init__(f"{one} {two}")


def raise_odd() -> None:
    raise OddError(1, 2)

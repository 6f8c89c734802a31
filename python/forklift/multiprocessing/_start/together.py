"""Starts several processes at once: what each start would wait for is done when all have been launched."""

from __future__ import annotations

import threading
from multiprocessing import process as _std_process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

__all__ = ["after_all", "start_all"]


class _Waiting(threading.local):
    rests: list[Callable[[], object]] | None = None


_waiting = _Waiting()


def after_all(rest: Callable[[], object]) -> None:
    """Call this, the rest of a start: now, or in `start_all` when this thread has launched all processes."""
    if _waiting.rests is None:
        rest()
    else:
        _waiting.rests.append(rest)


def start_all(processes: Iterable[Any]) -> None:
    """Start these processes: ``for process in processes: process.start()``, at the same time.

        workers = [Process(target=work, args=(i,)) for i in range(8)]
        start_all(workers)

    spawn        all interpreters are launched before the first one gets its data
    forkserver   all requests are sent before the first answer is awaited
    fork         one after another

    If one cannot be started, those after it are not, and those before it run, as in the loop.
    """
    if _waiting.rests is not None:  # a process whose start starts others
        for process in processes:
            process.start()
        return
    launched: list[tuple[Any, list[Callable[[], object]]]] = []
    first: BaseException | None = None
    try:
        for process in processes:
            rests: list[Callable[[], object]] = []
            _waiting.rests = rests
            process.start()
            launched.append((process, rests))
    except BaseException as error:
        first = error
    finally:
        _waiting.rests = None
    for process, rests in launched:
        try:
            for rest in rests:
                rest()
        except BaseException as error:
            _forget(process)
            first = first or error
    if first is not None:
        raise first


def _forget(process: Any) -> None:
    """Leave a process as one whose ``start()`` has raised."""
    process._popen = None
    children: Any = _std_process
    children._children.discard(process)

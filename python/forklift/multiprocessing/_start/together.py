"""Starts several processes at once: what each start would wait for is done after all have been launched."""

from __future__ import annotations

import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

__all__ = ["after_all", "start_all"]


class _Waiting(threading.local):
    rest: list[Callable[[], object]] | None = None


_waiting = _Waiting()


def after_all(rest: Callable[[], object]) -> None:
    """Call this, the rest of a start: now, or in `start_all` once this thread has launched all processes."""
    if _waiting.rest is None:
        rest()
    else:
        _waiting.rest.append(rest)


def start_all(processes: Iterable[Any]) -> None:
    """Start these processes, as ``for process in processes: process.start()``, but all at the same time.

    spawn        all interpreters are launched before the first gets its data
    forkserver   all requests are sent before the first answer is awaited
    fork         one after another

    The first exception is raised after the others have been dealt with; a process that comes after one whose
    ``start`` failed is not started.
    """
    if _waiting.rest is not None:
        for process in processes:  # a start that starts others
            process.start()
        return
    _waiting.rest = []
    errors: list[BaseException] = []
    try:
        for process in processes:
            process.start()
    except BaseException as error:
        errors.append(error)
    rests, _waiting.rest = _waiting.rest, None
    for rest in rests:
        try:
            rest()
        except BaseException as error:
            errors.append(error)
    if errors:
        raise errors[0]

"""Checks a pool's options, and refuses a wrong value before anything is started or sent.

If the standard library refuses a value as well, the exception has the same class.
"""

from __future__ import annotations

import math
import os
from operator import index

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "bytes_of",
    "chunksize_of",
    "cpus_of",
    "lookahead_of",
    "processes_of",
    "retries_of",
    "seconds_of",
    "tasks_of",
]

_MOST_PROCESSES = 4096  # live processes in a tree: docs/semantics.md, Limits
_MOST = 2**31 - 1  # of anything that is counted; a larger number means no limit


def _whole(what: str, value: Any) -> int:
    try:
        return index(value)
    except TypeError:
        raise TypeError(f"{what}, not {value!r}") from None


def processes_of(value: Any) -> int:
    if value is None:
        value = getattr(os, "process_cpu_count", os.cpu_count)() or 1
    if value < 1:
        raise ValueError("Number of processes must be at least 1")
    number = _whole("processes must be an int", value)
    if number > _MOST_PROCESSES:
        raise ValueError(f"processes can be {_MOST_PROCESSES} at most, not {number}")
    return number


def tasks_of(value: Any) -> int:
    """maxtasksperchild as the core takes it; 0: no limit."""
    if value is None:
        return 0
    if not isinstance(value, int) or value <= 0:
        raise ValueError("maxtasksperchild must be a positive int or None")
    return min(value, _MOST)


def seconds_of(value: Any) -> float:
    """A task's time-out in seconds."""
    try:
        seconds = math.nan if isinstance(value, (str, bytes, bytearray)) else float(value)
    except OverflowError:
        seconds = math.inf
    except (TypeError, ValueError):
        seconds = math.nan
    if math.isnan(seconds) and not isinstance(value, float):
        raise TypeError(f"a task's timeout must be a number of seconds or None, not {value!r}")
    if not seconds > 0:
        raise ValueError(f"a task's timeout must be positive (None: no time-out), not {value!r}")
    return seconds


def retries_of(value: Any) -> int:
    number = _whole("retries must be an int", value)
    if number < 0:
        raise ValueError(f"retries must be 0 or more, not {number}")
    return min(number, _MOST)


def bytes_of(value: Any) -> int:
    """max_memory as the core takes it; 0: no limit."""
    if value is None:
        return 0
    number = _whole("max_memory must be a number of bytes as an int (int(2e9), say)", value)
    if number < 0:
        raise ValueError(f"max_memory must be a number of bytes, not {number}")
    return min(number, 2**62)


def chunksize_of(value: Any) -> int:
    try:
        return min(index(value), _MOST)
    except TypeError:
        # The classes that the standard library raises, in those calls in which it does not hang instead.
        kind = ValueError if isinstance(value, float) else TypeError
        raise kind(f"chunksize, the number of items in a task, must be an int, not {value!r}") from None


def lookahead_of(value: Any) -> int | None:
    if value is None:
        return None
    number = _whole("lookahead must be an int or None", value)
    if number < 1:
        raise ValueError(f"lookahead must be 1+, not {number}")
    return number


def cpus_of(value: Any) -> list[set[int]] | None:
    """The set of processors for each worker. This process must be allowed to run on them, too."""
    if value is None:
        return None
    usage = "cpus must be a list with a processor's number, or several, for each worker"
    if isinstance(value, (str, bytes)):
        raise TypeError(f"{usage}, not {value!r}")
    try:
        chosen = [
            {index(each)} if hasattr(each, "__index__") else {index(cpu) for cpu in each} for each in value
        ]
    except TypeError:
        raise TypeError(f"{usage}, not {value!r}") from None
    before = os.sched_getaffinity(0)
    try:
        for each in chosen:
            # Only the kernel knows which processors are present and allowed. So set this thread's affinity to
            # each set in turn, and restore it at the end.
            try:
                os.sched_setaffinity(0, each)
            except (OSError, ValueError, OverflowError):
                raise ValueError(
                    f"cpus: a worker cannot run on {sorted(each)}; this process may use {sorted(before)}"
                ) from None
    finally:
        os.sched_setaffinity(0, before)
    return chosen or None

"""Checks of a pool's options: a wrong value is refused before anything is started or sent.

Where the standard library refuses a wrong value, too, the exception has the same class.
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

_MOST_PROCESSES = 4096  # living ones in a tree: docs/semantics.md, Limits
_MOST = 2**31 - 1  # of anything that is counted; more means without limit


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
    """maxtasksperchild; 0: no end."""
    if value is None:
        return 0
    if not isinstance(value, int) or value <= 0:
        raise ValueError("maxtasksperchild must be a positive int or None")
    return min(value, _MOST)


def seconds_of(value: Any) -> float:
    """A task's time-out."""
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
    """max_memory; 0: no limit."""
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
        # As it comes out of the standard library, where it does not hang instead.
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
    """The processors of each worker in turn. This process must be allowed to use them, too."""
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
            # Only the kernel knows which are present and allowed, so try them in this thread, and go back.
            try:
                os.sched_setaffinity(0, each)
            except (OSError, ValueError, OverflowError):
                raise ValueError(
                    f"cpus: a worker cannot run on {sorted(each)}; this process may use {sorted(before)}"
                ) from None
    finally:
        os.sched_setaffinity(0, before)
    return chosen or None

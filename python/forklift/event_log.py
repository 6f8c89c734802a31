"""What happens to a program's processes, as lines of JSON: for programs that read logs.

    forklift.log_to("run.jsonl")     # appended to; the processes that start from now on write there, too
    forklift.log_to(None)            # no longer

    {"time": 1764112000.123456, "event": "ended", "pid": 4711, "of": 4712, "name": "loader", "signal": 9}

Each line has ``time`` (seconds since 1970), ``event`` and ``pid`` (who writes it). The events:

    started         by the parent: a child, ``of`` its pid, its ``name``
    ended           by the parent, once it knows: ``exit_code`` or ``signal``
    reaped          what a process held that is gone was given back: ``of``, ``name``, ``domain``, ``clean``
                    (it left in good order)
    taken-over      a lock whose holder died was acquired: ``lock`` its number, its ``label``, ``domain``
    budget-reached  an allocation was refused, at most once a second: ``asked`` bytes, ``what``, ``domain``

The variable ``FORKLIFT_EVENT_LOG`` of the environment does the same from a process's beginning. Lines of
several processes do not mix: each is one write to a file that is open for appending.
"""

from __future__ import annotations

import os

from forklift import _core

__all__ = ["log_to"]

_VARIABLE = "FORKLIFT_EVENT_LOG"


def log_to(path: str | os.PathLike[str] | None) -> None:
    """Append events to a file from now on, in this process and those that it starts; None: no longer.

    OSError: the file cannot be opened for appending; the log is as it was then.
    """
    if path is None:
        os.environ.pop(_VARIABLE, None)
        _core.log_events_to("")
        return
    name = os.path.abspath(os.fspath(path))
    _core.log_events_to(name)
    os.environ[_VARIABLE] = name

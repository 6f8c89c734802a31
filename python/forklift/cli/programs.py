"""Which running programs use Forklift, for the commands that look at one."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

__all__ = ["find_programs", "pid_of", "server_of"]

_CONTROL = "/memfd:forklift-control"


def pid_of(who: str) -> int:
    """A process of the program that is meant: by a pid, by a name that it serves, or as the only one.

    ValueError: there is none, or there are several.
    """
    if who:
        return int(who) if who.isdigit() else server_of(who)
    found = find_programs()
    if len(found) == 1:
        return found[0]
    if not found:
        raise ValueError("no program of this user uses Forklift now")
    raise ValueError(f"several programs use Forklift: say which, by a pid: {' '.join(map(str, found))}")


def server_of(name: str) -> int:
    """The process that serves the name. ValueError: there is none."""
    from forklift import _core

    pid = _core.server_of(name)
    if pid == 0:
        raise ValueError(f"no program serves the name {name!r}")
    return pid


def find_programs() -> list[int]:
    """One process of each program of this user that shares something, the oldest first."""
    found: dict[int, int] = {}
    for name in sorted((each for each in os.listdir("/proc") if each.isdigit()), key=int):
        if int(name) == os.getpid():
            continue
        for inode in _domains_of(name):
            found.setdefault(inode, int(name))
    return list(dict.fromkeys(found.values()))


def _domains_of(pid: str) -> Iterator[int]:
    folder = f"/proc/{pid}/fd"
    try:
        descriptors = os.listdir(folder)
    except OSError:
        return  # another user's, or it has just ended
    for each in descriptors:
        with contextlib.suppress(OSError):
            if os.readlink(f"{folder}/{each}").startswith(_CONTROL):
                yield os.stat(f"{folder}/{each}").st_ino

"""Lists what a process holds, to compare it before and after a test, and waits until conditions hold."""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from multiprocessing import forkserver, resource_tracker
from pathlib import Path
from typing import Any

import forklift
import numpy as np

DEADLINE = 40.0
# NVIDIA's driver leaves such a file of a process that has shared events of torch's (seen with 580.159.04).
OF_THE_DRIVER = "cuda.shm."


def until(condition: Callable[[], Any], what: str, seconds: float = DEADLINE) -> Any:
    """Repeat until the condition holds, and return its value. Fails after `seconds`."""
    end = time.monotonic() + seconds
    pause = threading.Event()
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"waited {seconds} s in vain for: {what}")
        pause.wait(0.002)


def until_asleep(task: int | None) -> None:
    """Wait until a process, or a thread by its `native_id`, sleeps, so that the next event has to wake it.

    It counts as asleep if it did not run between two checks: a thread that only waits for the interpreter's
    lock would get it in between.
    """
    turns = ""

    def asleep() -> bool:
        nonlocal turns
        before, turns = turns, Path(f"/proc/{task}/schedstat").read_text()
        state = Path(f"/proc/{task}/stat").read_text().rpartition(")")[2].split()[0]
        return state == "S" and before == turns

    until(asleep, f"task {task} to sleep")


def own_dev_shm() -> bool:
    """Give this process, if permitted, a /dev/shm that no other program writes into. Returns whether it was.

    The leak check lists the whole folder. Call this before there are threads: the new namespace applies to
    the calling thread and to all that it starts.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    clone_newns, ms_rec, ms_private, ms_nosuid, ms_nodev = 0x20000, 0x4000, 0x40000, 0x2, 0x4
    if libc.unshare(clone_newns) != 0:
        return False
    return (
        libc.mount(b"none", b"/", None, ms_rec | ms_private, None) == 0
        and libc.mount(b"tmpfs", b"/dev/shm", b"tmpfs", ms_nosuid | ms_nodev, None) == 0
    )


def helpers() -> set[int]:
    """The standard library's own children, which stay until the end."""
    return {
        pid
        for pid in (forkserver._forkserver._forkserver_pid, resource_tracker._resource_tracker._pid)
        if pid is not None
    }


def children() -> set[int]:
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        try:
            found.update(int(pid) for pid in (task / "children").read_text().split())
        except OSError:
            continue
    return found - helpers()


def descriptors() -> dict[int, str]:
    found = {}
    for entry in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{entry}")
            if "/pym-" not in target:  # the standard library's heap for ctypes objects stays mapped
                found[int(entry)] = target
        except OSError:
            continue  # the descriptor of the listing itself
    return found


def managers(token: str) -> list[int]:
    """Both processes that manage the named segments of the domain whose files have this token."""
    found = []
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            state = (process / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if words[0] == b"forklift-shm-manager" and words[3] == b"%d" % int(token, 16) and state != "Z":
            found.append(int(process.name))
    return found


def mappings() -> int:
    """The number of mappings of Forklift's segments."""
    with open("/proc/self/maps") as maps:
        return sum("memfd:forklift" in line for line in maps)


def holdings() -> dict[str, Any]:
    forklift.reap()
    stats = forklift.stats()
    return {
        "children": children(),
        "descriptors": descriptors(),
        "mappings": mappings(),
        "shm": {name for name in os.listdir("/dev/shm") if not name.startswith(OF_THE_DRIVER)},
        "threads": {t.name for t in threading.enumerate()},
        **{name: stats[name] for name in ("blocks", "leases", "locks", "queues", "processes")},
    }


def difference(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    found = []
    for name, was in before.items():
        now = after[name]
        if name == "mappings":
            # One view for received arrays may be added, and it stays; but never one for each array.
            if now > was + 3:
                found.append(f"mappings: {was}, now {now}")
        elif name == "children":
            found += [f"children: {_stat(pid)}" for pid in now - was]
        elif isinstance(was, dict):
            found += [f"{name}: {more} -> {now[more]}" for more in set(now) - set(was)]
        elif isinstance(was, set):
            found += [f"{name}: {more}" for more in set(now) - set(was)]
        elif now > was:
            found.append(f"{name}: {was}, now {now}")
    return found


def _stat(pid: int) -> str:
    """The pid, the name and the state: '4711 (python) Z'."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return f"{pid}, which has ended meanwhile"
    return words[: words.rindex(")") + 3]


def assert_nothing_left(before: dict[str, Any]) -> None:
    """Fail if something is left. The ends of processes and threads are noticed late, so wait for a while."""
    multiprocessing.active_children()
    left: list[str] = []

    def settled() -> bool:
        nonlocal left
        gc.collect()
        left = difference(before, holdings())
        return not left

    try:
        until(settled, "everything given back", 5.0)
    except AssertionError:
        raise AssertionError("left behind: " + "; ".join(left)) from None
    wrong = forklift.audit()
    assert not wrong, wrong


def works(queue: Any) -> None:
    """Check that the queue still works."""
    queue.put({"still": np.arange(10_000)})
    assert queue.get(timeout=5)["still"][-1] == 9_999


def run_python(code: str, **options: Any) -> str:
    """Run a program that sets limits for itself, and return its output."""
    result = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        **options,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout

"""Starting processes: what children of the fork server and fresh interpreters cost.

Each figure is that of a program of its own, since children import what the main module imports. The programs
import nothing, or torch. The floor is a fork of the program itself, by the standard library, or an
interpreter that is started by ``posix_spawn`` and does nothing.
"""

from __future__ import annotations

import functools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rows.spec import STANDARD, Library, Row, Scale

# Arguments: the library, the start method; how often a process, a pool of four is started; gigabytes of
# private memory; how often eight at once.
# Prints {"first": ms, "next": ms, "pool": ms, "private": MB, "crowd": ms, "eight": ms}.
PROGRAM = """
{imports}
import sys, time

def nothing():
    pass

def ready(number):
    {compute}
    time.sleep(0.002)    # so that each worker gets one task
    with open("/proc/self/smaps_rollup") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith("Private_")) / 1e3

def measure(function):
    begin = time.perf_counter()
    result = function()
    return (time.perf_counter() - begin) * 1e3, result

def start(context):
    process = context.Process(target=nothing)
    process.start()
    process.join()

def fill(context):
    pool = context.Pool(4)
    return pool, pool.map(ready, range(4), chunksize=1)

def keep(barrier):
    global together
    together = barrier

def meet(number):
    return together.wait()

def crowd(context):
    # Until each worker runs a task: none ends before all have begun.
    pool = context.Pool(8, initializer=keep, initargs=(context.Barrier(8),))
    pool.map(meet, range(8), chunksize=1)
    return pool

def start_eight(context, at_once):
    processes = [context.Process(target=nothing) for _ in range(8)]
    if at_once is None:
        for process in processes:
            process.start()
    else:
        at_once(processes)
    for process in processes:
        process.join()

def touch(gigabytes):
    import mmap
    memory = mmap.mmap(-1, int(gigabytes * (1 << 30)), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    for place in range(0, len(memory), 4096):
        memory[place] = 1
    return memory

if __name__ == "__main__":
    import importlib, json, statistics
    memory = touch(float(sys.argv[5])) if float(sys.argv[5]) else None
    library = importlib.import_module(sys.argv[1])
    context = library.get_context(sys.argv[2])
    found = {{"first": measure(lambda: start(context))[0]}}
    found["next"] = statistics.median(measure(lambda: start(context))[0] for _ in range(int(sys.argv[3])))
    times = []
    for _ in range(int(sys.argv[4])):
        spent, (pool, private) = measure(lambda: fill(context))
        times.append(spent)
        pool.close()
        pool.join()
    found["pool"], found["private"] = statistics.median(times), max(private)
    times = []
    for _ in range(int(sys.argv[6])):
        spent, pool = measure(lambda: crowd(context))
        times.append(spent)
        pool.close()
        pool.join()
    found["crowd"] = statistics.median(times or [0])
    at_once = getattr(library, "start_all", None)
    times = [measure(lambda: start_eight(context, at_once))[0] for _ in range(int(sys.argv[6]))]
    found["eight"] = statistics.median(times or [0])
    print(json.dumps(found))
"""
PROGRAMS = {
    "bare": PROGRAM.format(imports="", compute="pass"),
    "torch": PROGRAM.format(imports="import torch", compute="torch.ones(8).sum()"),
}


def _run(
    kind: str, module: str, method: str, scale: Scale, gigabytes: float = 0, eights: int = 0
) -> dict[str, float]:
    count = {"bare": (20, 5), "torch": (10, 3)}[kind] if module != STANDARD or method == "fork" else (3, 1)
    if kind == "bare" and (eights or gigabytes or method == "spawn"):
        count = (3, 1) if eights else (10, 1)  # of both libraries
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "program.py"
        program.write_text(PROGRAMS[kind])
        command = [
            sys.executable,
            str(program),
            module,
            method,
            *(str(scale.count(each, 1)) for each in count),
            str(gigabytes if not scale.quick and not scale.tiny else min(gigabytes, 0.05)),
            str(scale.count(eights, 1) if eights else 0),
        ]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=150)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _figure(kind: str, what: str) -> Callable[[Library, Scale], float]:
    def measure(library: Library, scale: Scale) -> float:
        return _run(kind, library.module.__name__, "forkserver", scale)[what]

    return measure


def _forked(kind: str, what: str, scale: Scale) -> float:
    return _run(kind, STANDARD, "fork", scale)[what]


def _row(name: str, unit: str, kind: str, what: str, note: str, at_most: float | None = None) -> Row:
    return Row(
        name,
        unit,
        at_most=at_most,
        measure=_figure(kind, what),
        floor=functools.partial(_forked, kind, what),
        floor_name="fork of the program",
        note=note,
    )


def _of_method(method: str, what: str, **options: Any) -> Callable[[Library, Scale], float]:
    def measure(library: Library, scale: Scale) -> float:
        return _run("bare", library.module.__name__, method, scale, **options)[what]

    return measure


def _interpreters(count: int, scale: Scale) -> float:
    """Milliseconds until so many interpreters that do nothing, started at once, have ended."""
    times = []
    for _ in range(scale.count(10, 2)):
        begin = time.perf_counter()
        command = [sys.executable, "-c", "pass"]
        pids = [os.posix_spawn(sys.executable, command, os.environ) for _ in range(count)]
        for pid in pids:
            os.waitpid(pid, 0)
        times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1e3


def _forked_eight(what: str, scale: Scale) -> float:
    return _run("bare", STANDARD, "fork", scale, eights=5)[what]


def _eight(name: str, method: str, what: str, goal: float, note: str) -> Row:
    fresh = method == "spawn"
    return Row(
        name,
        "ms",
        goal,
        measure=_of_method(method, what, eights=5),
        floor=functools.partial(_interpreters, 8) if fresh else functools.partial(_forked_eight, what),
        floor_name="8 interpreters that do nothing" if fresh else "the same by fork",
        repeat=3,
        note=note,
    )


_POOL = "`Pool(8)` until all workers have run a task"
_ALL = "eight processes that do nothing, by `start_all` (the peer: one after another), until they have ended"
_START = "forkserver: start and join of a process that does nothing; the main module imports"
ROWS = (
    _row("start-bare", "ms", "bare", "next", f"{_START} nothing", 10),
    _row("start-torch", "ms", "torch", "next", f"{_START} torch", 20),
    _row("first-bare", "ms", "bare", "first", "forkserver: the first process, with the server's start"),
    _row("first-torch", "ms", "torch", "first", "the same, with the server's import of torch"),
    _row("ready-torch", "ms", "torch", "pool", "forkserver: Pool(4) until each worker has used torch", 60),
    Row(
        "start-spawn",
        "ms",
        1.3,
        measure=_of_method("spawn", "next"),
        floor=functools.partial(_interpreters, 1),
        floor_name="an interpreter that does nothing",
        repeat=3,
        note="start and join of a process that does nothing; the main module imports nothing",
    ),
    Row(
        "start-forkserver",
        "ms",
        3,
        measure=_of_method("forkserver", "next"),
        floor=functools.partial(_forked, "bare", "next"),
        floor_name="fork of the program",
        repeat=3,
        note="likewise",
    ),
    Row(
        "start-4G",
        "ms",
        3,
        measure=_of_method("spawn", "next", gigabytes=4),
        floor=functools.partial(_interpreters, 1),
        floor_name="an interpreter that does nothing",
        repeat=1,
        note="spawn, by a parent with 4 GB of private memory; both use vfork, so the memory costs neither",
    ),
    _eight("start-all-spawn", "spawn", "eight", 1.3, _ALL),
    _eight("start-all-forkserver", "forkserver", "eight", 3, _ALL),
    _eight("pool-ready-spawn", "spawn", "crowd", 3, _POOL),
    _eight("pool-ready-forkserver", "forkserver", "crowd", 3, _POOL),
    _row("private-torch", "MB", "torch", "private", "forkserver: private memory of such a worker", 20),
)

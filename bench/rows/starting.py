"""The fork server: what its children cost, in programs that import nothing, and torch.

Each figure is that of a program of its own, since the main module decides what the server imports. The floor
is a fork of the program itself, by the standard library.
"""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from rows.spec import STANDARD, Library, Row, Scale

# Prints {"first": ms, "next": ms, "pool": ms, "private": MB}.
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

if __name__ == "__main__":
    import importlib, json, statistics
    context = importlib.import_module(sys.argv[1]).get_context(sys.argv[2])
    found = {{"first": measure(lambda: start(context))[0]}}
    found["next"] = statistics.median(measure(lambda: start(context))[0] for _ in range(int(sys.argv[3])))
    times = []
    for _ in range(int(sys.argv[4])):
        spent, (pool, private) = measure(lambda: fill(context))
        times.append(spent)
        pool.close()
        pool.join()
    found["pool"], found["private"] = statistics.median(times), max(private)
    print(json.dumps(found))
"""
PROGRAMS = {
    "bare": PROGRAM.format(imports="", compute="pass"),
    "torch": PROGRAM.format(imports="import torch", compute="torch.ones(8).sum()"),
}


def _run(kind: str, module: str, method: str, scale: Scale) -> dict[str, float]:
    count = {"bare": (20, 5), "torch": (10, 3)}[kind] if module != STANDARD or method == "fork" else (3, 1)
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "program.py"
        program.write_text(PROGRAMS[kind])
        command = [
            sys.executable,
            str(program),
            module,
            method,
            *(str(scale.count(each, 1)) for each in count),
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


_START = "forkserver: start and join of a process that does nothing; the main module imports"
ROWS = (
    _row("start-bare", "ms", "bare", "next", f"{_START} nothing", 10),
    _row("start-torch", "ms", "torch", "next", f"{_START} torch", 20),
    _row("first-bare", "ms", "bare", "first", "forkserver: the first process, with the server's start"),
    _row("first-torch", "ms", "torch", "first", "the same, with the server's import of torch"),
    _row("ready-torch", "ms", "torch", "pool", "forkserver: Pool(4) until each worker has used torch", 60),
    _row("private-torch", "MB", "torch", "private", "forkserver: private memory of such a worker", 20),
)

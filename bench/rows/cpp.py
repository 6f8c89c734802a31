"""The rows that the C++ program measures (bench/cpp): which there are, and what is good enough."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

from rows.spec import Figures, Row, Scale

RING = "SPSC ring"
LOCKED_RING = "ring, robust mutexes"

ROWS = (
    Row("cpp-rtt-64B", "us", at_most=0.5, floor_factor=1.5, floor_of=RING),
    Row("cpp-rtt-64B-waiting", "us", at_most=12, note="each end sleeps until its message comes"),
    Row(
        "cpp-mpmc",
        "ns",
        at_most=80,
        floor_factor=1.5,
        floor_of=LOCKED_RING,
        note="8 bytes, one producer, one consumer",
    ),
    Row(
        "cpp-mpmc-2P2C",
        "ns",
        at_most=120,
        floor_factor=1.5,
        floor_of=LOCKED_RING,
        note="8 bytes, two and two",
    ),
    Row("cpp-mpmc-alone", "ns", note="put and get by one process"),
    Row("cpp-oneway-64B", "ns", at_most=150, floor_of=RING),
    Row("cpp-oneway-4K", "ns", at_most=350, floor_of=RING),
    Row("cpp-oneway-1M", "us", floor_factor=1.1, floor_of="memcpy", note="copied in and out"),
    Row("cpp-handle-1M", "ns", at_most=300, note="allocate, send, receive, free; no copy"),
    Row("cpp-lease", "ns", at_most=40, note="add and release"),
    Row("cpp-alloc", "ns", at_most=60, note="1 MB, allocate and free"),
)


def measure(program: Path, row: Row, repeat: int, scale: Scale, extra: Sequence[str] = ()) -> Figures:
    command = [str(program), "--rows", row.name, "--repeat", str(repeat), *extra]
    if scale.quick:
        command.append("--quick")
    run = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if run.returncode != 0:
        raise RuntimeError(run.stderr.strip() or f"{program.name} ended with {run.returncode}")
    figures = Figures()
    places = {"peer": figures.peers, "floor": figures.floors, "part": figures.parts}
    for line in run.stdout.splitlines():
        one = json.loads(line)
        if one["unit"] != row.unit:
            raise RuntimeError(f"{row.name} is measured in {one['unit']}, not in {row.unit}")
        if one["role"] == "ours":
            figures.ours = one["values"]
        else:
            places[one["role"]][one["contender"]] = one["values"]
    return figures

#!/usr/bin/env python3
"""Puts the chosen rows of bench/RESULTS.md into README.md, so that no figure there is written by hand.

tools/readme_table.py            rewrites README.md
tools/readme_table.py --check    fails if README.md says something else than bench/RESULTS.md
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BEGIN = "<!-- measured: written by tools/readme_table.py -->\n"
END = "<!-- /measured -->\n"

# What a reader wants to know first, in words.
ROWS = {
    "queue-rtt": "a small int there and back, through two queues",
    "tail": "its 99th percentile",
    "queue-oneway": "small ints, one producer, one consumer",
    "4p4c": "small ints, four producers, four consumers",
    "array-4K": "NumPy array of 4 KB: put, taken, every element read",
    "array-64K": "the same with 64 KB",
    "array-1M": "the same with 1 MB",
    "array-16M": "the same with 16 MB",
    "array-256M": "the same with 256 MB",
    "pipe-rtt": "a small int there and back, through a pipe",
    "torch-fresh-1M": "a new CPU tensor of 1 MB, sent",
    "torch-shared-256M": "a tensor of 256 MB that is shared already, sent again",
    "torch-list100": "a list of 100 tensors of 4 KB, sent",
    "loan-16M": "a loan of 16 MB: filled in place, sent",
    "lock": "an uncontended lock: acquired, released",
    "create-lock": "making a lock",
    "create-queue": "making a queue",
    "pool-map-1": "`Pool(2).map` of trivial tasks",
    "cpp-rtt-64B": "C++: 64 bytes there and back",
    "cpp-mpmc": "C++: 8 bytes, one way",
    "cpp-oneway-1M": "C++: 1 MB copied in and out",
}


def taken(results: str) -> str:
    """The date and the machine, as the results name them."""
    date = results.split("Taken on ", 1)[1].split(" ", 1)[0]
    machine = [line.removeprefix("- ") for line in results.splitlines() if line.startswith("- ")][:4]
    return f"Taken on {date}; {'; '.join(machine)}.\n"


def table(results: str) -> str:
    found: dict[str, list[str]] = {name: [] for name in ROWS}
    for line in results.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) < 6 or cells[0] not in ROWS or cells[1].startswith("limit"):
            continue
        row, peer, unit, ours, theirs, better = cells[:6]
        peer = f"`{peer}`" if peer == "multiprocessing" else peer
        found[row].append(f"| {ROWS[row]} | {peer} | {ours} {unit} | {theirs} {unit} | {better} |")
    head = ["| | peer | Forklift | peer's | times better |", "|---|---|---:|---:|---:|"]
    return "\n".join([*head, *(line for lines in found.values() for line in lines)]) + "\n"


def updated(readme: str, results: str) -> str:
    before, rest = readme.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    return f"{before}{BEGIN}{table(results)}\n{taken(results)}{END}{after}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing")
    check = parser.parse_args().check
    path = ROOT / "README.md"
    old = path.read_text()
    new = updated(old, (ROOT / "bench" / "RESULTS.md").read_text())
    if check and old != new:
        print("README.md and bench/RESULTS.md differ: run tools/readme_table.py", file=sys.stderr)
        return 1
    if not check:
        path.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())

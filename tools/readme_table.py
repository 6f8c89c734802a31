#!/usr/bin/env python3
"""Writes six rows of bench/results.json into README.md, so that no figure there is written by hand.

tools/readme_table.py            rewrites README.md
tools/readme_table.py --check    fails if README.md has other figures, or if bench/RESULTS.md, which has the
                                 whole table, does not have the same rows
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "bench"))

import report  # noqa: E402
from rows.spec import Comparison  # noqa: E402

BEGIN = "<!-- measured: written by tools/readme_table.py -->\n"
END = "<!-- /measured -->\n"

# One row of each kind with its strongest peer; that of C++ is level with Forklift.
ROWS = (
    ("queue-rtt", "multiprocessing"),
    ("array-1M", "multiprocessing"),
    ("pool-map-1", "multiprocessing"),
    ("torch-fresh-1M", "torch.multiprocessing"),
    ("cpp-rtt-64B", "Open MPI"),
    ("start-spawn", "multiprocessing"),
)


def table(comparisons: list[Comparison], results: str) -> str:
    of = {(one["row"], one["peer"]): one for one in comparisons}
    lines = report.in_words([of[chosen] for chosen in ROWS])
    shown = set(results.splitlines())
    missing = [line for line in lines if line not in shown]
    if missing:
        raise SystemExit("bench/RESULTS.md is of another run than bench/results.json, it lacks " + missing[0])
    return "\n".join([*lines, "", report.taken(results), ""])


def updated(readme: str, measured: str) -> str:
    before, rest = readme.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    return f"{before}{BEGIN}{measured}{END}{after}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing")
    check = parser.parse_args().check
    path = ROOT / "README.md"
    old = path.read_text()
    bench = ROOT / "bench"
    comparisons = json.loads((bench / "results.json").read_text())
    new = updated(old, table(comparisons, (bench / "RESULTS.md").read_text()))
    if check and old != new:
        print("README.md and bench/results.json differ: run tools/readme_table.py", file=sys.stderr)
        return 1
    if not check:
        path.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())

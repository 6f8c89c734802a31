#!/usr/bin/env python3
"""Draws the chart of speed in README.md from the JSON of a run.

    bench/chart.py             writes docs/images/speed.svg
    bench/chart.py --check     fails if that file is not what the JSON gives

The JSON is what `bench/run.py --json bench/results.json --markdown bench/RESULTS.md` writes. The date and the
machine come from the Markdown; a figure of the JSON that the Markdown does not show is an error.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import report
from rows.spec import Comparison
from svg import Drawing
from words import WORDS

ROOT = Path(__file__).resolve().parent.parent

STANDARD, TORCH = "multiprocessing", "torch.multiprocessing"
CPP_PEERS = ("zeromq", "boost message_queue", "pipe", "iceoryx")


@dataclass(frozen=True)
class Bar:
    row: str
    peer: str
    label: str = ""  # empty: the row's words


@dataclass(frozen=True)
class Group:
    heading: str
    bars: tuple[Bar, ...]


def _beside(row: str) -> tuple[Bar, ...]:
    return tuple(Bar(row, peer, peer) for peer in CPP_PEERS)


GROUPS = (
    Group(
        "Python, beside the standard library's multiprocessing",
        (
            Bar("queue-rtt", STANDARD),
            Bar("4p4c", STANDARD),
            Bar("array-64K", STANDARD, "a NumPy array of 64 KB, sent and read"),
            Bar("array-1M", STANDARD, "a NumPy array of 1 MB, sent and read"),
            Bar("array-256M", STANDARD, "a NumPy array of 256 MB, sent and read"),
            Bar("pool-map-1", STANDARD),
            Bar("lock", STANDARD),
            Bar("start-spawn", STANDARD),
        ),
    ),
    Group(
        "CPU tensors, beside torch.multiprocessing",
        (Bar("torch-fresh-1M", TORCH), Bar("torch-fresh-256M", TORCH)),
    ),
    Group("C++: 64 bytes there and back, beside", _beside("cpp-rtt-64B")),
    Group("C++: the same, each end asleep until its message comes, beside", _beside("cpp-rtt-64B-waiting")),
    Group("C++: 1 MB copied in and out, beside", _beside("cpp-oneway-1M")),
)

WIDTH = 860.0
LABELS = 350.0  # where the field of the bars begins
FIELD = 300.0
LOWEST, HIGHEST = 0.5, 500.0  # times as fast, at the field's ends
STEP, BAR = 22.0, 14.0


def place(ratio: float) -> float:
    """The x coordinate of a ratio, on a logarithmic scale."""
    share = math.log(min(max(ratio, LOWEST), HIGHEST) / LOWEST) / math.log(HIGHEST / LOWEST)
    return LABELS + FIELD * share


class Figures:
    """The comparisons of one run, by row and peer."""

    def __init__(self, comparisons: Sequence[Comparison], results: str) -> None:
        shown = set(results.splitlines())
        for one in comparisons:
            line = "| " + " | ".join(report.cells(one)) + " |"
            if line not in shown:
                raise SystemExit(f"chart: the Markdown is of another run, it has no line {line}")
        self._of = {(one["row"], one["peer"]): one for one in comparisons}

    def of(self, bar: Bar) -> Comparison:
        if (bar.row, bar.peer) not in self._of:
            raise SystemExit(f"chart: the run has no row {bar.row} beside {bar.peer}")
        return self._of[bar.row, bar.peer]


def draw(figures: Figures, taken: str) -> str:
    page = Drawing(WIDTH, "Forklift's speed beside its peers", f"Bars: how many times as fast. {taken}")
    page.text(20, 30, "How many times as fast as its peers", size=16, bold=True)
    page.text(20, 48, "Right of 1: Forklift is faster. The scale is logarithmic.", color="muted")
    top = 72.0
    marks = (1.0, 10.0, 100.0)
    for mark in marks:
        page.text(place(mark), top, f"{mark:g}", color="muted", size=11, anchor="middle")
    y = top + 8
    bottom = y + sum(STEP * len(group.bars) + 34 for group in GROUPS)
    for mark in marks:
        page.line(place(mark), y, place(mark), bottom - 8)
    page.text(LABELS + FIELD + 60, top, "Forklift; peer", color="muted", size=11)
    for group in GROUPS:
        y += 22
        page.text(20, y, group.heading, size=13, bold=True)
        y += 8
        for bar in group.bars:
            one = figures.of(bar)
            _draw_bar(page, y, bar.label or WORDS[bar.row].replace("`", ""), one)
            y += STEP
        y += 4
    parts = taken.split("; ")
    for line, at in ((parts[:3], bottom + 12), (parts[3:], bottom + 26)):
        page.text(20, at, "; ".join(line), color="muted", size=10)
    return page.render(bottom + 40)


def _draw_bar(page: Drawing, y: float, label: str, one: Comparison) -> None:
    ratio = float(one["ratio"])
    left, right = sorted((place(1), place(ratio)))
    page.text(LABELS - 8, y + BAR - 3, label, anchor="end")
    page.rectangle(left, y, max(right - left, 2), BAR, "strong" if ratio >= 1 else "weak", 2)
    page.text(right + 6, y + BAR - 3, report.number(ratio), bold=True)
    pair = f"{report.number(one['ours'])}; {report.number(one['theirs'])} {one['unit']}"
    page.text(LABELS + FIELD + 60, y + BAR - 3, pair, color="muted", size=11)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", type=Path, default=ROOT / "bench" / "results.json", help="of the run")
    parser.add_argument(
        "--markdown", type=Path, default=ROOT / "bench" / "RESULTS.md", help="of the same run"
    )
    parser.add_argument("--svg", type=Path, default=ROOT / "docs" / "images" / "speed.svg", help="the chart")
    parser.add_argument("--check", action="store_true", help="change nothing")
    options = parser.parse_args()
    results = options.markdown.read_text()
    drawn = draw(Figures(json.loads(options.json.read_text()), results), report.taken(results))
    if not options.check:
        options.svg.write_text(drawn)
    elif not options.svg.exists() or options.svg.read_text() != drawn:
        print(f"{options.svg} is not what {options.json.name} gives: run bench/chart.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

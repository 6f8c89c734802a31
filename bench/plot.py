#!/usr/bin/env python3
"""Draws how the time of a message grows with its size, for Forklift and its peers, from the JSON of a run.

    bench/plot.py                              writes docs/images/sizes.svg
    bench/plot.py --check                      fails if that file is not what the JSON gives
    bench/plot.py --json mine.json --svg mine.svg --taken "my machine"
    bench/plot.py --markdown bench/RESULTS.md --family array --svg docs/images/peers.svg

A panel is a family of rows whose names end in a size (array-4K, array-64K, ...). Both scales are logarithmic.
A peer with one row of a family is left out: one point is no curve.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import report
from from_markdown import comparisons as of_markdown
from rows.spec import Comparison
from svg import CURVES, MORE_CURVES, Drawing

ROOT = Path(__file__).resolve().parent.parent
OURS = "Forklift"
UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
BYTES = {"B": 1, "K": 1 << 10, "M": 1 << 20}


@dataclass(frozen=True)
class Panel:
    family: str
    heading: str


COLORS = (*CURVES, *MORE_CURVES)
PANELS = (
    Panel("array", "A NumPy array, sent and read"),
    Panel("torch-fresh", "A new CPU tensor of torch, sent"),
    Panel("cpp-oneway", "C++: bytes, one way, copied in and out"),
)

WIDTH = 860.0
LEFT, FIELD, HEIGHT = 70.0, 560.0, 190.0
HEAD, FOOT = 34.0, 40.0


@dataclass(frozen=True)
class Curve:
    name: str
    points: tuple[tuple[int, float], ...]  # bytes, seconds


def size_of(row: str, family: str) -> int | None:
    """The bytes in a row's name; None: it is of another family."""
    found = re.fullmatch(re.escape(family) + r"-(\d+)([BKM])", row)
    return int(found[1]) * BYTES[found[2]] if found else None


def curves_of(comparisons: Sequence[Comparison], family: str) -> list[Curve]:
    """Forklift's curve, then its peers', the one that is slowest at the largest size first."""
    points: dict[str, dict[int, float]] = {}
    for one in comparisons:
        size = size_of(one["row"], family)
        if size is None or one["peer"].startswith("limit"):
            continue
        scale = UNITS[one["unit"]]
        points.setdefault(OURS, {})[size] = one["ours"] * scale
        points.setdefault(one["peer"], {})[size] = one["theirs"] * scale
    curves = [Curve(name, tuple(sorted(of.items()))) for name, of in points.items() if len(of) > 1]
    ours = [each for each in curves if each.name == OURS]
    peers = [each for each in curves if each.name != OURS]
    return ours + sorted(peers, key=lambda each: -each.points[-1][1])[: len(COLORS) - 1]


def time_text(seconds: float) -> str:
    for unit, scale in reversed(UNITS.items()):
        if seconds >= scale * 0.999:
            return f"{seconds / scale:g} {unit}"
    return f"{seconds * 1e9:g} ns"


def size_text(size: int) -> str:
    for unit, scale in (("MB", 1 << 20), ("KB", 1 << 10)):
        if size >= scale:
            return f"{size // scale} {unit}"
    return f"{size} B"


class Scale:
    """A logarithmic scale between two ends of a line on the page."""

    def __init__(self, low: float, high: float, at_low: float, at_high: float) -> None:
        self._low = math.log(low)
        self._span = math.log(high) - self._low
        self._from = at_low
        self._to = at_high

    def place(self, value: float) -> float:
        return self._from + (self._to - self._from) * (math.log(value) - self._low) / self._span


def draw_panel(page: Drawing, top: float, panel: Panel, curves: Sequence[Curve]) -> None:
    sizes = sorted({size for each in curves for size, _ in each.points})
    times = [time for each in curves for _, time in each.points]
    low, high = math.floor(math.log10(min(times))), math.ceil(math.log10(max(times)))
    across = Scale(sizes[0], sizes[-1], LEFT, LEFT + FIELD)
    up = Scale(10.0**low, 10.0**high, top + HEAD + HEIGHT, top + HEAD)
    page.text(20, top + 18, panel.heading, size=13, bold=True)
    for power in range(low, high + 1):
        y = up.place(10.0**power)
        page.line(LEFT, y, LEFT + FIELD, y)
        page.text(LEFT - 8, y + 4, time_text(10.0**power), color="muted", size=11, anchor="end")
    for size in sizes:
        page.text(
            across.place(size),
            top + HEAD + HEIGHT + 18,
            size_text(size),
            color="muted",
            size=11,
            anchor="middle",
        )
    labels: list[float] = []
    for curve, color in sorted(zip(curves, COLORS, strict=False), key=lambda pair: pair[0].points[-1][1]):
        points = [(across.place(size), up.place(time)) for size, time in curve.points]
        page.curve(points, color, 3 if curve.name == OURS else 2)
        y = points[-1][1] + 4
        if labels:
            y = min(y, labels[-1] - 14)  # the slower ones are higher up
        labels.append(y)
        page.text(LEFT + FIELD + 14, y, curve.name, color=color, bold=curve.name == OURS)


def draw(comparisons: Sequence[Comparison], taken: str, panels: Sequence[Panel] = PANELS) -> str:
    page = Drawing(WIDTH, "Time by size", f"Curves: the time of a message by its size. {taken}")
    page.text(20, 30, "The time of a message, by its size", size=16, bold=True)
    page.text(20, 48, "Lower is faster. Both scales are logarithmic.", color="muted")
    y = 64.0
    for panel in panels:
        curves = curves_of(comparisons, panel.family)
        if not curves:
            raise SystemExit(f"plot: the run has no two sizes of {panel.family}")
        draw_panel(page, y, panel, curves)
        y += HEAD + HEIGHT + FOOT
    parts = taken.split("; ")
    for line in (parts[:3], parts[3:]):
        page.text(20, y, "; ".join(line), color="muted", size=10)
        y += 14
    return page.render(y)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    bench = ROOT / "bench"
    parser.add_argument(
        "--json", type=Path, help="of the run; default: results.json, or the Markdown where that is named"
    )
    parser.add_argument("--markdown", type=Path, help="of the same run; default: RESULTS.md")
    parser.add_argument("--family", choices=[panel.family for panel in PANELS], help="only this panel")
    parser.add_argument("--taken", help="words about the run; default: those of the Markdown")
    parser.add_argument(
        "--svg", type=Path, default=ROOT / "docs" / "images" / "sizes.svg", help="the drawing"
    )
    parser.add_argument("--check", action="store_true", help="change nothing")
    options = parser.parse_args()
    results = (options.markdown or bench / "RESULTS.md").read_text()
    if options.markdown and not options.json:
        comparisons = of_markdown(results)
    else:
        comparisons = json.loads((options.json or bench / "results.json").read_text())
    panels = [panel for panel in PANELS if options.family in (None, panel.family)]
    drawn = draw(comparisons, options.taken or report.taken(results), panels)
    if not options.check:
        options.svg.write_text(drawn)
    elif not options.svg.exists() or options.svg.read_text() != drawn:
        print(f"{options.svg} is not what the run gives: run bench/plot.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Puts whole runs from several machines side by side: a goal holds when it holds on each.

    bench/machines.py bench/RESULTS.md bench/RESULTS-xeon.md > bench/RESULTS-machines.md

Each file is what `bench/run.py --markdown` wrote. A row that one of the runs lacks is left empty there.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import report
from from_markdown import comparisons
from rows.spec import Comparison

LETTERS = "ABCDEFGH"


def verdict(found: Sequence[Comparison | None]) -> str:
    """What becomes of a goal on those machines that have the row."""
    missed = [letter for letter, one in zip(LETTERS, found, strict=False) if one and one["holds"] is False]
    if missed:
        return f"MISSED on {', '.join(missed)}"
    return "holds" if any(one and one["holds"] for one in found) else ""


def side_by_side(results: Sequence[str]) -> str:
    """The Markdown of several runs' Markdown."""
    runs = [{(one["row"], one["peer"]): one for one in comparisons(text)} for text in results]
    keys = list(dict.fromkeys(key for run in runs for key in run))
    letters = LETTERS[: len(runs)]
    headings = ["row", "peer", "unit", *(f"ours on {letter}" for letter in letters)]
    headings += [*(f"better on {letter}" for letter in letters), "goal", ""]
    lines = [
        "# Several machines side by side",
        "",
        "Written by `bench/machines.py`; not by hand. *better* is the ratio of ours and the peer's, turned",
        "so that more is better. A goal holds when it holds on each machine.",
        "",
        *(f"- {letter}: {report.taken(text)}" for letter, text in zip(letters, results, strict=True)),
        "",
        "| " + " | ".join(headings) + " |",
        "|" + "---|" * 3 + "---:|" * (2 * len(runs) + 1) + "---|",
    ]
    for key in keys:
        found = [run.get(key) for run in runs]
        some = next(one for one in found if one)
        goals = {one["goal"] for one in found if one and one["goal"] is not None}
        cells = [some["row"], some["peer"], some["unit"]]
        cells += [report.number(one["ours"]) if one else "" for one in found]
        cells += [report.number(one["ratio"]) if one else "" for one in found]
        cells += [", ".join(f">= {goal:g}" for goal in sorted(goals)), verdict(found)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("markdown", type=Path, nargs="+", help="of each run")
    options = parser.parse_args()
    if len(options.markdown) > len(LETTERS):
        parser.error(f"at most {len(LETTERS)} runs")
    print(side_by_side([path.read_text(encoding="utf-8") for path in options.markdown]), end="")


if __name__ == "__main__":
    main()

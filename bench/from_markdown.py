#!/usr/bin/env python3
"""Makes the JSON of a run from the Markdown of the same run, where only the Markdown was kept.

    bench/from_markdown.py bench/RESULTS.md bench/results.json

The figures are as exact as the Markdown prints them. A run with `--json` and `--markdown` writes both files
and needs no such step.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import report
from rows.spec import Comparison

VERDICTS = {words: holds for holds, words in report.VERDICTS.items()}


def _number(cell: str) -> float | None:
    return None if cell in ("", "-") else float(cell.removeprefix(">= ").replace(",", ""))


def comparisons(results: str) -> list[Comparison]:
    """Reads the table of every row from what `report.markdown` wrote."""
    lines = results.splitlines()
    head = "| " + " | ".join(report.HEADINGS) + " |"
    if head not in lines:
        raise SystemExit(f"there is no line {head!r}")
    notes = dict(
        line.removeprefix("- ").split(": ", 1) for line in lines if line.startswith("- ") and ": " in line
    )
    found = []
    for line in lines[lines.index(head) + 2 :]:
        if not line.startswith("| "):
            break
        row, peer, unit, ours, theirs, ratio, goal, verdict = (cell.strip() for cell in line[1:-1].split("|"))
        one: Comparison = {
            "row": row,
            "peer": peer,
            "unit": unit,
            "ours": _number(ours),
            "theirs": _number(theirs),
            "ratio": _number(ratio),
            "goal": _number(goal),
            "holds": VERDICTS[verdict],
        }
        if row in notes:
            one["note"] = notes[row]
        found.append(one)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("markdown", type=Path)
    parser.add_argument("json", type=Path)
    options = parser.parse_args()
    options.json.write_text(json.dumps(comparisons(options.markdown.read_text()), indent=1) + "\n")


if __name__ == "__main__":
    main()

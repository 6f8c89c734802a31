#!/usr/bin/env python3
"""Measure Forklift side by side with its peers.

    bench/run.py                                     every row
    bench/run.py --rows queue-rtt,array --json out.json
    bench/run.py --list
    bench/run.py --markdown bench/RESULTS.md         the figures with command and machine
    bench/run.py --rows tail --add --json out.json   some rows anew, beside those that the file has
    bench/run.py --compare bench/results.json        what has changed since that run by more than the noise
    bench/run.py --ring-below 0.4                    only while a ring's round trip takes less (distance.py)

Ours and the peer are measured in turn in one run and their medians are compared, since machines are noisy.
A row whose values spread by more than 20 % is measured again, at most twice (--again); all its values count.
The C++ rows are measured by the program that the `release` preset builds. The exit status tells whether
everything could be measured, not whether the goals hold.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
from pathlib import Path

import compare as comparing
import contenders
import distance
import report
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rows import ROWS
from rows.spec import WIDE_SPREAD, Comparison, Figures, Row, Scale, choose, compare, spread

ROOT = Path(__file__).resolve().parent.parent
CPP_PROGRAM = ROOT / "build" / "release" / "bench" / "forklift_bench"


def arguments() -> argparse.Namespace:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", help="names, comma separated; a prefix before a dash names several")
    parser.add_argument("--list", action="store_true", help="name the rows")
    parser.add_argument("--json", type=Path, help="write the comparisons there ('-': standard output)")
    parser.add_argument("--markdown", type=Path, help="write them there for people")
    parser.add_argument("--add", action="store_true", help="keep the other rows that --json has")
    parser.add_argument("--compare", type=Path, help="the JSON of an earlier run")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, for trying out")
    parser.add_argument("--repeat", type=int, help="measurements of each contender (default: the row's own)")
    parser.add_argument("--again", type=int, default=2, help="times that a row may be measured again")
    parser.add_argument("--ring-below", type=float, metavar="US", help="count what was measured so only")
    parser.add_argument("--ring-above", type=float, metavar="US", help="likewise")
    parser.add_argument("--pin", action="store_true", help="C++ rows: worker i on processor i")
    parser.add_argument(
        "--nice", type=int, default=0, help="negative: before others on a busy machine (root)"
    )
    parser.add_argument("--cpp", type=Path, default=CPP_PROGRAM, help="the C++ program")
    parsed = parser.parse_args()
    if parsed.repeat is not None and parsed.repeat < 1:
        parser.error("--repeat: at least 1")
    if parsed.add and (parsed.json is None or str(parsed.json) == "-"):
        parser.error("--add: needs a file for --json")
    return parsed


def measure(row: Row, options: argparse.Namespace, progress: Progress) -> Figures:
    scale = Scale(quick=options.quick)
    repeat = options.repeat or (min(row.repeat, 3) if options.quick else row.repeat)
    contestants = 2 + len(row.present) + (row.floor is not None)
    task = progress.add_task(row.name, total=None if row.measure is None else repeat * contestants)
    started: dict[str, contenders.Contender] = {}

    try:
        state = wanted(options)
        if row.measure is not None:
            tick = functools.partial(progress.advance, task)
            return contenders.measure(row, repeat, scale, options.nice, tick, started, state)
        if not options.cpp.exists():
            raise RuntimeError(f"{options.cpp} is not built (make core, or --cpp)")
        if state is not None:
            return contenders.measure_cpp_in(
                state, options.cpp, row, repeat, scale, options.nice, options.pin
            )
        return contenders.measure_cpp(options.cpp, row, repeat, scale, options.nice, options.pin)
    finally:
        for contender in started.values():
            contender.close()
        progress.remove_task(task)


def wanted(options: argparse.Namespace) -> distance.Wanted | None:
    """The state of the processors in which a figure counts; None: any."""
    if options.ring_below is None and options.ring_above is None:
        return None
    below = float("inf") if options.ring_below is None else options.ring_below
    return distance.Wanted(lambda: distance.ring_us(options.cpp), below, options.ring_above or 0.0)


def measure_until_steady(row: Row, options: argparse.Namespace, progress: Progress) -> Figures:
    """Measures a row, and again while its own values spread too much to be believed."""
    figures = measure(row, options, progress)
    if options.quick:
        return figures
    for _ in range(options.again):
        if spread(figures.ours) <= WIDE_SPREAD:
            break
        figures.extend(measure(row, options, progress))
    return figures


def as_json(comparisons: list[Comparison]) -> str:
    return json.dumps(comparisons, indent=1)


def save(comparisons: list[Comparison], file: Path | None) -> None:
    """Called after every row, so that an interrupted run leaves what it has measured."""
    if file is not None and str(file) != "-":
        file.write_text(as_json(comparisons) + "\n")


def before(options: argparse.Namespace, rows: list[Row]) -> list[Comparison]:
    """What an earlier run has measured of other rows, where this one adds to it."""
    if not options.add or not options.json.exists():
        return []
    now = {row.name for row in rows}
    return [one for one in json.loads(options.json.read_text()) if one["row"] not in now]


def command_line(options: argparse.Namespace, comparisons: list[Comparison]) -> list[str]:
    """The command as typed; of a run in pieces, with the rows of all pieces."""
    words = report.command_line()
    if options.add and "--rows" in words:
        words[words.index("--rows") + 1] = ",".join(dict.fromkeys(one["row"] for one in comparisons))
    return words


def main() -> int:
    options = arguments()
    if options.list:
        print("\n".join(row.name for row in ROWS))
        return 0
    rows = choose(ROWS, options.rows) if options.rows else list(ROWS)
    # The table is for people: if the JSON goes to standard output, the table goes to standard error.
    console = report.wide(Console(stderr=str(options.json) == "-"))
    comparisons = before(options, rows)
    order = {row.name: place for place, row in enumerate(ROWS)}
    failures: list[str] = []
    columns = (TextColumn("{task.description:20}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        overall = progress.add_task("all rows", total=len(rows))
        for row in rows:
            try:
                comparisons += compare(row, measure_until_steady(row, options, progress))
            except RuntimeError as error:
                failures.append(f"{row.name}: {error}")
            progress.advance(overall)
            comparisons.sort(key=lambda one: order.get(one["row"], len(order)))
            save(comparisons, options.json)
    report.table(comparisons, console)
    if str(options.json) == "-":
        print(as_json(comparisons))
    if options.markdown is not None:
        state = wanted(options)
        facts = [f"counted only while the round trip of a ring was {state}"] if state else []
        options.markdown.write_text(report.markdown(comparisons, command_line(options, comparisons), facts))
    if options.compare is not None:
        comparing.show(comparing.changes(json.loads(options.compare.read_text()), comparisons), console)
    for failure in failures:
        console.print(f"[red]not measured[/] {failure}", highlight=False)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

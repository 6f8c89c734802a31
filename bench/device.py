#!/usr/bin/env python3
"""Measure tensors on a GPU beside torch.multiprocessing.

    bench/device.py                                  every row
    bench/device.py --json out.json --markdown bench/RESULTS-device.md
    bench/device.py --check-only                     one small measurement of each: does it run?

Ours and the peer are measured in turn in one run, with floors beside them, and their medians are compared.
Without a torch that finds the GPU, ours are measured alone and torch's rows are left out. `bench/device.sh`
builds and tests before. FORKLIFT_LIBCUDA names another driver: of the tests' fake one the figures mean
nothing, and only --check-only takes it. The exit status tells whether everything could be measured, not
whether the goals hold.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import contenders
import report
from rich.console import Console
from rows.device import OF_TORCH, OWN
from rows.spec import Comparison, Row, Scale, choose, compare


def arguments() -> argparse.Namespace:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", help="names, comma separated; a prefix before a dash names several")
    parser.add_argument("--list", action="store_true", help="name the rows")
    parser.add_argument("--json", type=Path, help="write the comparisons there")
    parser.add_argument("--markdown", type=Path, help="write them there for people")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, for trying out")
    parser.add_argument("--repeat", type=int, help="measurements of each contender (default: the row's own)")
    parser.add_argument("--check-only", action="store_true", help="see that every row runs")
    parsed = parser.parse_args()
    if parsed.repeat is not None and parsed.repeat < 1:
        parser.error("--repeat: at least 1")
    if parsed.check_only and parsed.markdown:
        parser.error("--check-only measures nothing that is worth writing down")
    if os.environ.get("FORKLIFT_LIBCUDA") and not (parsed.check_only or parsed.list):
        parser.error("FORKLIFT_LIBCUDA names another driver than the machine's: only with --check-only")
    return parsed


def why_not_torch() -> str | None:
    """Why torch's rows cannot be measured; None: they can."""
    # In a process of its own, so that this one stays without torch and without a context.
    question = "import torch; print(torch.__version__, torch.cuda.is_available())"
    answer = subprocess.run([sys.executable, "-c", question], capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        return "torch is not installed"
    version, available = answer.stdout.split()
    return None if available == "True" else f"torch {version} finds no GPU"


def rows_to_measure(missing: str | None) -> list[Row]:
    if missing is None:
        return [*OWN, *OF_TORCH]
    return [dataclasses.replace(row, peer="", goal=None) for row in OWN]


def describe_device() -> str:
    """Asked in a process of its own, so that this one has no context."""
    ask = "from gpu_driver import Cuda; print(Cuda().name())"
    answer = subprocess.run(
        [sys.executable, "-c", ask], cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    if answer.returncode != 0:
        raise SystemExit(f"no GPU to measure:\n{answer.stderr.strip()}")
    return answer.stdout.strip()


def main() -> int:
    options = arguments()
    if options.list:
        print("\n".join(row.name for row in (*OWN, *OF_TORCH)))
        return 0
    console = report.wide(Console())
    facts = [describe_device()]
    missing = why_not_torch()
    if missing is not None:
        facts.append(f"without torch's rows and figures: {missing}")
    for fact in facts:
        console.print(fact, highlight=False)
    rows = rows_to_measure(missing)
    if options.rows:
        rows = choose(rows, options.rows)
    scale = Scale(quick=options.quick, tiny=options.check_only)
    comparisons: list[Comparison] = []
    failures: list[str] = []
    # One process of each contender for all rows: importing torch and opening a GPU takes seconds.
    started: dict[str, contenders.Contender] = {}
    try:
        for row in rows:
            repeat = options.repeat or (1 if options.check_only else row.repeat)
            try:
                comparisons += compare(row, contenders.measure(row, repeat, scale, 0, lambda: None, started))
            except RuntimeError as error:
                failures.append(f"{row.name}: {error}")
            # After every row, so that an interrupted run leaves what it has measured.
            if options.json is not None:
                options.json.write_text(json.dumps(comparisons, indent=1) + "\n")
    finally:
        for contender in started.values():
            contender.close()
    report.table(comparisons, console)
    if options.markdown is not None:
        options.markdown.write_text(report.markdown(comparisons, report.command_line(), facts))
    for failure in failures:
        console.print(f"[red]not measured[/] {failure}", highlight=False)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

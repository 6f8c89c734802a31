"""`make demo`: runs every example and prints what was measured against the standard library on this machine.

    python examples/demo.py [--quick]

Each step is a program of its own. The exit status is 0 if and only if all of them succeeded.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
ROWS = "queue-rtt,queue-oneway,array-1M,array-16M"
STEP_SECONDS = 180  # a step that takes longer has failed

console = Console()


class Steps:
    """Runs programs one after another and remembers which of them failed."""

    def __init__(self) -> None:
        self.failed: list[str] = []

    def run(
        self, name: str, *command: str | Path, show: bool = True, environment: dict[str, str] | None = None
    ) -> str | None:
        """Standard output, or None if the step failed. Progress on stderr is passed on as it comes.

        `environment`: variables beside those of this process.
        """
        start = time.perf_counter()
        try:
            done = subprocess.run(
                [sys.executable, *map(str, command)],
                cwd=ROOT,
                env={**os.environ, **(environment or {})},
                stdout=subprocess.PIPE,
                text=True,
                timeout=STEP_SECONDS,
                check=False,
            )
            output, problem = done.stdout, f"exit status {done.returncode}" if done.returncode else None
        except subprocess.TimeoutExpired as late:
            captured = late.stdout or b""
            output = captured.decode(errors="replace") if isinstance(captured, bytes) else captured
            problem = f"not done after {STEP_SECONDS} s"
        seconds = time.perf_counter() - start
        mark = "[red]failed[/red]" if problem else "[green]ok[/green]"
        console.print(f"{mark} [bold]{name}[/bold] [dim]{seconds:.1f} s[/dim]", highlight=False)
        if problem:
            self.failed.append(f"{name}: {problem}")
            show = True
        if show:
            for line in output.rstrip().splitlines():
                console.print(f"   {line}", markup=False, highlight=False, soft_wrap=True)
        return None if problem else output

    def run_json(self, name: str, *command: str | Path, show: bool = True) -> Any:
        """What the step wrote to the file that it was given with --json."""
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "result.json"
            if self.run(name, *command, "--json", out, show=show) is None:
                return None
            return json.loads(out.read_text())


def seeds(steps: Steps) -> None:
    console.rule("other packages' programs, with their import changed")
    simulated = {"FORKLIFT_SIMULATE_DEVICE": "Ascend"}  # two of them use an accelerator
    for program in sorted((HERE / "seeds").glob("*.py")):
        steps.run(program.relative_to(HERE).as_posix(), program, show=False, environment=simulated)


def programs(steps: Steps) -> None:
    console.rule("a tour")
    for program in sorted((HERE / "tour").glob("*.py")):
        steps.run(program.relative_to(HERE).as_posix(), program)
    seeds(steps)
    console.rule("programs of torch, with their import changed")
    for name in ("hogwild.py", "replay_buffer.py", "data_loader.py"):
        steps.run(name, HERE / name, show=False)
    console.rule("ranks of torch.distributed")
    steps.run("ddp.py", HERE / "ddp.py", show=False)


def real_jobs(steps: Steps, quick: bool) -> list[dict[str, Any]]:
    console.rule("the real job, once on each library")
    # Alone, the program trains on 400 batches.
    some = ["--batches", "60", "--held-out", "4"] if quick else ["--batches", "150"]
    runs = steps.run_json("photo_crops.py", HERE / "photo_crops.py", *some)
    console.rule("a C++ simulator and a Python program")
    steps.run_json("simulator.py", HERE / "simulator.py", "--steps", "100" if quick else "500")
    return runs or []


def compare(runs: list[dict[str, Any]], rows: list[dict[str, Any]]) -> None:
    table = Table(title=f"measured here, on {os.cpu_count()} processors", title_justify="left")
    table.add_column("what")
    for column in ("standard library", "Forklift", "times better"):
        table.add_column(column, justify="right")
    if runs:
        theirs, ours = (run["MB_per_s"] for run in runs)
        figures = (f"{theirs:.0f} MB/s", f"{ours:.0f} MB/s", f"{ours / theirs:.1f}")
        table.add_row("the real job, training included", *figures)
    for row in rows:
        if row["peer"] != "multiprocessing":  # the limits of the machine, too, are in bench/RESULTS.md
            continue
        table.add_row(
            f"{row['row']} (bench)",
            f"{row['theirs']:,.4g} {row['unit']}",
            f"{row['ours']:,.4g} {row['unit']}",
            f"{row['ratio']:.1f}",
        )
    console.print(table)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="shorter runs of the real jobs")
    quick = parser.parse_args().quick

    start = time.perf_counter()
    steps = Steps()
    programs(steps)
    runs = real_jobs(steps, quick)
    console.rule("measured against the standard library")
    rows = steps.run_json("bench/run.py", ROOT / "bench" / "run.py", "--quick", "--rows", ROWS, show=False)
    compare(runs, rows or [])
    console.print(f"{time.perf_counter() - start:.0f} s in all", highlight=False)
    for failure in steps.failed:
        console.print(f"[red]failed:[/red] {failure}", highlight=False)
    return 1 if steps.failed else 0


if __name__ == "__main__":
    sys.exit(main())

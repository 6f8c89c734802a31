"""Pi by Monte Carlo on all nodes of an MPI job. Workers may die: their tasks run again, on any node.

    mpirun -n 4 python -m forklift.mpi examples/monte_carlo.py --deaths

Without MPI (`python examples/monte_carlo.py`) it runs on this machine. The seed of a task is its number, so
the result depends neither on the number of workers nor on which of them die.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import tempfile
from pathlib import Path
from typing import Any

import forklift.multiprocessing as mp

SAMPLES = 20_000


def hits(turn: tuple[int, str | None]) -> int:
    """How many of some random points of the unit square are in the circle."""
    number, folder = turn
    if folder is not None and number % 10 == 3:
        try:
            (Path(folder) / str(number)).touch(exist_ok=False)
        except FileExistsError:
            pass  # this is the second attempt
        else:
            os.kill(os.getpid(), signal.SIGKILL)
    points = random.Random(number)
    return sum(points.random() ** 2 + points.random() ** 2 <= 1 for _ in range(SAMPLES))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", type=int, default=40)
    parser.add_argument("--deaths", action="store_true", help="each tenth task kills its worker at first")
    options = parser.parse_args()
    ctx: Any
    try:
        ctx = mp.get_context("mpi")
    except (ImportError, RuntimeError):
        ctx = mp.get_context("forkserver")
    # A folder that all nodes see, for the notes of who has died.
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder, ctx.Pool() as pool:
        turns = [(number, folder if options.deaths else None) for number in range(options.tasks)]
        found = sum(pool.imap_unordered(hits, turns, retries=3))
        died = len(list(Path(folder).iterdir()))
    print(f"pi is about {4 * found / (options.tasks * SAMPLES):.4f}; {died} workers died")


if __name__ == "__main__":
    main()

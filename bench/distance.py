"""How far apart the processors lie, for runs that keep only what was measured while they lay near, or far.

On some virtual machines that changes every few seconds: a ring's round trip between two processes takes
0.17 us or 0.69. The median of a row that was measured in both states is the figure of neither.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

Value = TypeVar("Value")

# The longest wait for the state that was asked for, and how many measurements may be lost to its change.
PATIENCE_S = 240
MOST_LOST = 60
LOOK_S = 0.2

_RING = ("--rows", "cpp-rtt-64B", "--contenders", "SPSC ring", "--repeat", "3", "--quick", "--pin")


def ring_us(program: Path) -> float:
    """Microseconds of the round trip of 64 bytes through a ring, between two processes on two processors."""
    if not program.exists():
        raise RuntimeError(f"{program}, which looks at the distance, is not built (make core, or --cpp)")
    run = subprocess.run([program, *_RING], capture_output=True, text=True, timeout=60, check=True)
    values: list[float] = json.loads(run.stdout.splitlines()[0])["values"]
    return statistics.median(values)


@dataclass
class Wanted:
    """The state in which a figure counts: the ring's round trip (us) is within these limits."""

    look: Callable[[], float]
    below: float = float("inf")
    above: float = 0.0
    _held_last: bool = field(
        default=False, init=False
    )  # after the last measurement, which the next one follows

    def holds(self) -> bool:
        return self.above < self.look() < self.below

    def await_it(self, patience_s: float = PATIENCE_S) -> None:
        """Returns once it holds. RuntimeError if it has not for so long."""
        end = time.monotonic() + patience_s
        while not self.holds():
            if time.monotonic() > end:
                raise RuntimeError(f"a ring's round trip was not {self} in {patience_s:.0f} s")
            time.sleep(LOOK_S)

    def __str__(self) -> str:
        limits = [f"above {self.above:g} us"] * (self.above > 0)
        limits += [f"below {self.below:g} us"] * (self.below < float("inf"))
        return " and ".join(limits)

    def take(self, once: Callable[[], Value]) -> Value:
        """What `once` returns when this state held before it and after it; until then it is called again."""
        for _ in range(MOST_LOST + 1):
            if not self._held_last:
                self.await_it()
            value = once()
            self._held_last = self.holds()
            if self._held_last:
                return value
        raise RuntimeError(
            f"a ring's round trip did not stay {self} for one measurement: {MOST_LOST + 1} were lost"
        )

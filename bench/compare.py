"""What has changed between two runs: which rows became slower or faster by more than their noise.

    bench/run.py --rows queue-rtt --json new.json --compare bench/results.json

A row is compared by its ratio to each peer, since machines and minutes differ in speed and both sides of a
ratio feel that. A ratio's noise is taken from the spread of the single measurements on both sides, in both
runs; where a run was kept without them, `rows.spec.UNKNOWN_SPREAD` stands for it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import report
from rich.console import Console
from rich.table import Table
from rows.spec import Comparison, spread

# No change is smaller than this: code that lies elsewhere in memory moves a row by as much.
LEAST_CHANGE = 0.05
# How many spreads of its noise a change has to have.
SIGNIFICANT = 2.0


@dataclass(frozen=True)
class Change:
    """`factor` above 1: ours is now that much better beside the peer than it was."""

    row: str
    peer: str
    before: float
    after: float
    noise: float

    @property
    def factor(self) -> float:
        return self.after / self.before

    @property
    def verdict(self) -> str:
        size = abs(math.log(self.factor))
        if size <= max(math.log1p(LEAST_CHANGE), SIGNIFICANT * self.noise):
            return "noise"
        return "better" if self.factor > 1 else "WORSE"


def _noise(one: Comparison) -> float:
    """Of the ratio of two medians, as a part of it. The median of more values varies less."""
    total = 0.0
    for side in ("ours_values", "theirs_values"):
        values = one.get(side) or ()
        if side == "theirs_values" and not values and one["peer"].startswith("limit"):
            continue  # its floor's values are not kept beside it
        total += (spread(values) / math.sqrt(max(len(values), 1))) ** 2
    return math.sqrt(total)


def changes(old: Sequence[Comparison], new: Sequence[Comparison]) -> list[Change]:
    """Of the rows and peers that both runs have, in the order of the new one."""
    before = {(one["row"], one["peer"]): one for one in old}
    found = []
    for one in new:
        was = before.get((one["row"], one["peer"]))
        if was is None or one["peer"] == "itself" or not one["ratio"] or not was["ratio"]:
            continue
        noise = math.hypot(_noise(was), _noise(one))
        found.append(Change(one["row"], one["peer"], was["ratio"], one["ratio"], noise))
    return found


def show(found: Sequence[Change], console: Console) -> None:
    """Writes what changed, the worst first, and how many did not."""
    changed = sorted((one for one in found if one.verdict != "noise"), key=lambda one: one.factor)
    if changed:
        table = Table("row", "peer", "was", "is", "change", "", title="times better than the peer")
        for one in changed:
            style = "green" if one.factor > 1 else "red"
            table.add_row(
                one.row,
                one.peer,
                report.number(one.before),
                report.number(one.after),
                f"{one.factor:.2f} x",
                f"[{style}]{one.verdict}[/]",
            )
        console.print(table)
    console.print(f"{len(found)} compared, {len(changed)} changed by more than their noise")

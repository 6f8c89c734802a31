"""What a row of the benchmarks is, and how its figures become comparisons.

Every comparison says how many times better ours is (`ratio`, whatever the unit) and how many times better it
has to be (`goal`), so `holds` is `ratio >= goal` everywhere. A goal that is a limit and no peer's figure (a
number of microseconds, a multiple of what the bare machine takes) is a comparison with that limit as the
peer.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

STANDARD = "multiprocessing"
OURS = "forklift.multiprocessing"
FLOOR = "floor"


@dataclass(frozen=True)
class Scale:
    quick: bool = False
    tiny: bool = False  # only to see that it runs

    def count(self, full: int, least: int = 1) -> int:
        if self.tiny:
            return min(full, least)
        return max(least, full // 10) if self.quick else full

    def nbytes(self, full: int) -> int:
        return min(full, 1 << 20) if self.tiny else full


@dataclass(frozen=True)
class Library:
    """What is measured: a module with the interface of multiprocessing."""

    name: str
    module: Any

    def context(self, method: str = "fork") -> Any:
        return self.module.get_context(method)


Measure = Callable[[Library, Scale], float]


@dataclass(frozen=True)
class Peer:
    """A contender that is no module with the interface of multiprocessing, with a way of its own to measure.

    It is optional: where it cannot be measured, the row says so and does without.
    """

    name: str
    measure: Callable[[Scale], float]
    missing: str = ""  # why it cannot be measured here; empty: it can
    difference: str = ""  # what it does more, less or otherwise than ours


@dataclass(frozen=True)
class Row:
    """One figure, measured on several contenders in turn."""

    name: str
    unit: str
    goal: float | None = None  # times better than the (first) peer; None: reported only
    more_is_better: bool = False
    # Ours may not be worse than the most lenient of these limits that are given:
    at_most: float | None = None  # in the unit
    floor_factor: float | None = None  # times the floor measured in the same run
    floor_of: str = ""  # which floor that is, if there are several
    peer_factor: float | None = None  # times what the peer `peer_of` took in the same run
    peer_of: str = ""
    extra_at_most: float | None = None  # beyond the peer's figure, in the unit
    note: str = ""
    measure: Measure | None = None  # None: the C++ program measures it
    floor: Callable[[Scale], float] | None = None
    floor_name: str = FLOOR
    ours: str = OURS
    peer: str = STANDARD  # empty: nobody
    others: tuple[Peer, ...] = ()
    repeat: int = 5

    @property
    def present(self) -> tuple[Peer, ...]:
        """Those other peers that can be measured here."""
        return tuple(other for other in self.others if not other.missing)


@dataclass
class Figures:
    """The values of every contender of a row, in the order in which they were taken."""

    ours: list[float] = field(default_factory=list)
    peers: dict[str, list[float]] = field(default_factory=dict)
    floors: dict[str, list[float]] = field(default_factory=dict)
    parts: dict[str, list[float]] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)  # optional peers that failed, and how

    def extend(self, more: Figures) -> None:
        """Adds the values of another measurement of the same row."""
        self.ours += more.ours
        for mine, theirs in (
            (self.peers, more.peers),
            (self.floors, more.floors),
            (self.parts, more.parts),
        ):
            for name, values in theirs.items():
                mine.setdefault(name, []).extend(values)
        self.left_out.update(more.left_out)


Comparison = dict[str, Any]


# A row that spreads more is measured again.
WIDE_SPREAD = 0.20
# What is assumed of values that were not kept: what a whole run shows on a busy virtual machine.
UNKNOWN_SPREAD = 0.20


def spread(values: Sequence[float]) -> float:
    """The distance of the quartiles as a part of the median; of less than three values it is unknown."""
    middle = statistics.median(values) if values else 0.0
    if len(values) < 3 or middle <= 0:
        return UNKNOWN_SPREAD
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return float((high - low) / middle)


def compare(row: Row, figures: Figures) -> list[Comparison]:
    """The comparisons with the peers, then with the limit. Without a goal, `goal` and `holds` are None."""
    if not figures.ours:
        return []
    ours = statistics.median(figures.ours)
    floors = {name: statistics.median(values) for name, values in figures.floors.items()}
    floor = floors.get(row.floor_of, next(iter(floors.values()), None))
    remarks = [row.note] if row.note else []
    remarks += _remarks_on_others(row, figures)
    remarks += [f"{name} {statistics.median(v):.3g}" for name, v in figures.parts.items()]
    remarks += [f"{name} {value:.3g}" for name, value in floors.items()]
    if len(figures.ours) >= 3 and spread(figures.ours) > WIDE_SPREAD:
        remarks.append(f"ours spreads by {spread(figures.ours):.0%}")

    def entry(peer: str, theirs: float, goal: float | None) -> Comparison:
        better, worse = (ours, theirs) if row.more_is_better else (theirs, ours)
        ratio = better / worse if worse > 0 else None
        one: Comparison = {
            "row": row.name,
            "peer": peer,
            "unit": row.unit,
            "ours": ours,
            "theirs": theirs,
            "ratio": ratio,
            "goal": goal,
            "holds": None if goal is None else ratio is None or ratio >= goal,
        }
        if floor is not None:
            one["floor"] = floor
        if remarks:
            one["note"] = "; ".join(remarks)
        one["ours_values"] = figures.ours
        return one

    entries = []
    for index, (peer, values) in enumerate(figures.peers.items()):
        entries.append(entry(peer, statistics.median(values), row.goal if index == 0 else None))
        entries[-1]["theirs_values"] = values
    limit = _limit(row, figures, floor)
    if limit is not None:
        entries.append(entry(*limit, 1.0))
    elif not entries:
        entries.append(entry("itself", ours, None))
    return entries


def _remarks_on_others(row: Row, figures: Figures) -> list[str]:
    """How the other peers' work differs from ours, and who was left out."""
    left_out = {other.name: other.missing for other in row.others if other.missing} | figures.left_out
    remarks = [
        f"{other.name}: {other.difference}"
        for other in row.others
        if other.difference and figures.peers.get(other.name)
    ]
    return remarks + [f"{name} left out: {reason}" for name, reason in left_out.items()]


def _limit(row: Row, figures: Figures, floor: float | None) -> tuple[str, float] | None:
    """The most that ours may cost, and in words how that limit is made."""
    limits: list[tuple[float, str]] = []
    if row.at_most is not None:
        limits.append((row.at_most, f"{row.at_most:g} {row.unit}"))
    if row.floor_factor is not None and floor is not None:
        limits.append((row.floor_factor * floor, f"{row.floor_factor:g} x floor"))
    if row.peer_factor is not None and row.peer_of in figures.peers:
        theirs = statistics.median(figures.peers[row.peer_of])
        limits.append((row.peer_factor * theirs, f"{row.peer_factor:g} x {row.peer_of}"))
    if row.extra_at_most is not None and figures.peers:
        theirs = statistics.median(next(iter(figures.peers.values())))
        limits.append((theirs + row.extra_at_most, f"theirs + {row.extra_at_most:g} {row.unit}"))
    if not limits:
        return None
    return "limit: " + " or ".join(words for _, words in limits), max(value for value, _ in limits)


def choose(rows: Iterable[Row], wanted: str) -> list[Row]:
    """Chooses rows by name, or all that begin with a name and a dash: `array` is array-4K, array-64K, ..."""
    rows = list(rows)
    chosen: list[Row] = []
    for name in (part.strip() for part in wanted.split(",") if part.strip()):
        name = name.removesuffix("*").removesuffix("-")
        found = [row for row in rows if row.name == name or row.name.startswith(name + "-")]
        if not found:
            raise SystemExit(f"no row is called {name}; --list names them")
        chosen += [row for row in found if row not in chosen]
    return chosen

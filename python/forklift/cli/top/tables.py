"""What ``forklift top`` shows: columns of each table, as text that fits a width."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from forklift.cli.top.sampling import Sample

__all__ = ["TABLES", "Column", "Table", "arena_line", "as_text", "size"]

Row = dict[str, Any]


@dataclass(frozen=True)
class Column:
    """A column: its heading, what it shows of a row, and what it is sorted by."""

    heading: str
    text: Callable[[Row], str]
    key: Callable[[Row], Any]
    right: bool = True


@dataclass(frozen=True)
class Table:
    """A table of a sample: its rows by name, its columns, and by which one it is sorted at first."""

    name: str
    columns: tuple[Column, ...]
    sort: int

    def rows(
        self, sample: Sample, pattern: str = "", sort: int | None = None, rising: bool = False
    ) -> list[Row]:
        """The rows whose text contains the pattern, sorted by a column, the largest first."""
        rows: list[Row] = getattr(sample, self.name)
        if pattern:
            rows = [row for row in rows if pattern.lower() in " ".join(self.texts(row)).lower()]
        column = self.columns[self.sort if sort is None else sort]
        return sorted(rows, key=column.key, reverse=column.right and not rising)

    def texts(self, row: Row) -> list[str]:
        """A row's cells."""
        return [column.text(row) for column in self.columns]


def size(count: float) -> str:
    """Bytes for people: 4.0M."""
    for unit in ("", "K", "M", "G"):
        if count < 1000:
            return f"{count:.0f}{unit}" if unit == "" or count >= 100 else f"{count:.1f}{unit}"
        count /= 1024
    return f"{count:.1f}T"


def _count(number: float) -> str:
    for unit in ("", "k", "M"):
        if number < 1000:
            return f"{number:.0f}{unit}" if unit == "" or number >= 100 else f"{number:.1f}{unit}"
        number /= 1000
    return f"{number:.1f}G"


def _number(heading: str, name: str, show: Callable[[float], str] = _count) -> Column:
    return Column(heading, lambda row: show(row[name]), lambda row: row[name])


def _duration(heading: str, name: str) -> Column:
    def show(row: Row) -> str:
        seconds = row[name]
        if seconds is None:
            return ""
        return f"{1e3 * seconds:.3g} ms" if seconds >= 1e-3 else f"{1e6 * seconds:.3g} us"

    return Column(heading, show, lambda row: row[name] or 0.0)


def _text(heading: str, show: Callable[[Row], str]) -> Column:
    return Column(heading, show, show, right=False)


def _pids(heading: str, name: str) -> Column:
    return Column(heading, lambda row: " ".join(map(str, row[name])), lambda row: len(row[name]), right=False)


def _seconds(seconds: float) -> str:
    if seconds < 10:
        return f"{seconds:.1f} s"
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def _held(seconds: float) -> str:
    return _seconds(seconds) if seconds else ""


def _named(row: Row) -> str:
    return row["label"] or str(row["index"])


def _doing(row: Row) -> str:
    if not row["waits_for"]:
        return str(row["state"])
    return f"{_seconds(row['waits_seconds'])} for {row['waits_for']}"


def _fill(row: Row) -> str:
    return f"{row['length']}/{row['capacity']}" if row["capacity"] else str(row["length"])


TABLES = (
    Table(
        "processes",
        (
            Column("PID", lambda row: str(row["process"]), lambda row: row["process"]),
            _text("NAME", lambda row: row["name"]),
            _number("CPU%", "cpu_percent", lambda value: f"{value:.1f}"),
            _number("OWN", "own_bytes", size),
            _number("ARENA", "arena_bytes", size),
            _number("OLD", "old_bytes", size),
            _number("BLOCKS", "blocks"),
            _text("STATE", _doing),
        ),
        sort=2,
    ),
    Table(
        "queues",
        (
            _text("QUEUE", _named),
            Column("LENGTH", _fill, lambda row: row["length"]),
            _number("PUT/s", "put_per_second"),
            _number("GOT/s", "got_per_second"),
            _number("BYTES/s", "bytes_per_second", size),
            _number("OLDEST", "oldest_seconds", lambda value: f"{value:.1f}"),
            _pids("GETS", "waiting_to_get"),
            _pids("PUTS", "waiting_to_put"),
        ),
        sort=2,
    ),
    Table(
        "topics",
        (
            _text("TOPIC", _named),
            _number("PUT/s", "put_per_second"),
            _number("PUT", "put"),
            _number("DROPPED", "dropped"),
            _pids("GETS", "waiting_to_get"),
        ),
        sort=1,
    ),
    Table(
        "pools",
        (
            Column("POOL OF", lambda row: str(row["owner"]), lambda row: row["owner"]),
            Column("BUSY", lambda row: str(len(row["busy"])), lambda row: len(row["busy"])),
            Column("IDLE", lambda row: str(len(row["idle"])), lambda row: len(row["idle"])),
            _number("WAITING", "waiting"),
            _number("SUBMITTED", "submitted"),
            _number("DEATHS", "deaths"),
            _number("RETRIES", "retries"),
            _duration("MEDIAN", "median_seconds"),
            _duration("P99", "p99_seconds"),
        ),
        sort=3,
    ),
    Table(
        "locks",
        (
            _text("LOCK", lambda row: f"{row['kind']} {_named(row)}"),
            Column("HELD BY", lambda row: str(row["owner"] or ""), lambda row: row["owner"]),
            _number("VALUE", "value"),
            _pids("WAITING", "waiting"),
        ),
        sort=3,
    ),
    Table(
        "blocks",
        (
            Column("BLOCK", lambda row: str(row["index"]), lambda row: row["index"]),
            _number("BYTES", "bytes", size),
            _number("HELD", "held_seconds", _held),
            _text("HOLDER", lambda row: row["holder"]),
        ),
        sort=1,
    ),
)


def arena_line(sample: Sample) -> str:
    """The memory, in a line."""
    arena = sample.arena
    budget = f" of a budget of {size(arena['budget'])}" if arena["budget"] else ""
    return (
        f"arena: {size(arena['committed'])} committed{budget}, {size(arena['warm'])} of it free, "
        f"{size(arena['messages'])} for messages; {arena['blocks']} leases"
    )


def as_text(samples: list[Sample], width: int, pattern: str = "") -> str:
    """Everything, in lines of at most `width` characters."""
    lines: list[str] = []
    for sample in samples:
        lines.append(arena_line(sample))
        for table in TABLES:
            rows = table.rows(sample, pattern)
            if rows:
                lines += ["", *_lines(table, rows)]
    return "\n".join(line[:width].rstrip() for line in lines)


def _lines(table: Table, rows: list[Row]) -> list[str]:
    cells = [[column.heading for column in table.columns], *(table.texts(row) for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(table.columns))]
    return [
        "  ".join(
            text.rjust(widths[i]) if table.columns[i].right else text.ljust(widths[i])
            for i, text in enumerate(line)
        )
        for line in cells
    ]

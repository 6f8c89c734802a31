"""Comparisons for people: a table on the terminal, and the same as Markdown with command and machine."""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

import peers
from rich.console import Console
from rich.table import Table
from rows.spec import Comparison
from words import WORDS

HEADINGS = ("row", "peer", "unit", "ours", "theirs", "better", "goal", "")
VERDICTS = {True: "holds", False: "MISSED", None: ""}


def number(value: float | None) -> str:
    if value is None:
        return "-"
    if value == 0 or 0.01 <= abs(value) < 10_000:
        return f"{value:.3g}" if abs(value) < 1_000 else f"{value:.0f}"
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.2g}"


def verdict(one: Comparison) -> str:
    return VERDICTS[one["holds"]]


def cells(one: Comparison) -> list[str]:
    goal = "" if one["goal"] is None else f">= {one['goal']:g}"
    return [
        one["row"],
        one["peer"],
        one["unit"],
        number(one["ours"]),
        number(one["theirs"]),
        number(one["ratio"]),
        goal,
        verdict(one),
    ]


def wide(console: Console) -> Console:
    """Makes room for every column if the output is no terminal."""
    if not console.is_terminal:
        console.width = 110
    return console


def table(comparisons: Sequence[Comparison], console: Console) -> None:
    shown = Table(*HEADINGS, title="ours beside its peers, medians of alternating runs")
    shown.columns[1].min_width = 18
    for column in (shown.columns[0], *shown.columns[2:]):
        column.no_wrap = True
    for column in shown.columns[3:7]:
        column.justify = "right"
    last = None
    for one in comparisons:
        style = {True: "green", False: "red", None: ""}[one["holds"]]
        if last is not None and one["row"] != last:
            shown.add_section()
        shown.add_row(*cells(one)[:-1], f"[{style}]{verdict(one)}[/]" if style else "")
        last = one["row"]
    console.print(shown)
    notes = {one["row"]: one["note"] for one in comparisons if "note" in one}
    for row, note in notes.items():
        console.print(f"[dim]{row}: {note}[/]")


def _processor() -> str:
    """The processor's name, and which it is: virtual machines give several generations one name."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    facts = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if "model name" not in facts:
        return platform.machine()
    which = [f"{name.split()[-1]} {facts[name]}" for name in ("cpu family", "model") if name in facts]
    return facts["model name"] + (f" ({', '.join(which)})" if which else "")


def machine() -> list[str]:
    """The facts on which the figures depend, one per line."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    versions = []
    for package in ("numpy", "torch", "forklift-mp"):
        try:
            versions.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            pass
    return [
        f"{len(os.sched_getaffinity(0))} x {_processor()}, {pages / 2**30:.0f} GiB",
        f"{platform.system()} {platform.release()} {platform.machine()}, {' '.join(platform.libc_ver())}",
        f"Python {platform.python_version()}, " + ", ".join(versions),
    ]


def _peers(comparisons: Sequence[Comparison]) -> list[str]:
    """The versions of the peers that are packages."""
    found = peers.versions(one["peer"] for one in comparisons)
    return [f"- beside {', '.join(found)}"] if found else []


def in_words(comparisons: Sequence[Comparison]) -> list[str]:
    """The rows that a reader asks for first, each beside its peers, as a Markdown table without limits."""
    lines = ["| | peer | Forklift | peer's | times better |", "|---|---|---:|---:|---:|"]
    for row, words in WORDS.items():
        for one in comparisons:
            if one["row"] != row or one["peer"].startswith("limit"):
                continue
            peer = f"`{one['peer']}`" if one["peer"] == "multiprocessing" else one["peer"]
            ours, theirs = (f"{number(one[side])} {one['unit']}" for side in ("ours", "theirs"))
            lines.append(f"| {words} | {peer} | {ours} | {theirs} | {number(one['ratio'])} |")
    return lines


def taken(results: str) -> str:
    """When and where a run was taken, from what `markdown` wrote about it."""
    date = results.split("Taken on ", 1)[1].split(" ", 1)[0]
    machine = [line.removeprefix("- ") for line in results.splitlines() if line.startswith("- ")][:4]
    return f"Taken on {date}; {'; '.join(machine)}."


def markdown(comparisons: Sequence[Comparison], command: Sequence[str], facts: Sequence[str] = ()) -> str:
    """`facts`: of the machine, beside those that every run has."""
    rows = ["| " + " | ".join(cells(one)) + " |" for one in comparisons]
    notes = {one["row"]: one["note"] for one in comparisons if "note" in one}
    lines = [
        "# Results",
        "",
        f"Written by `{command[0]} --markdown`; not by hand. Ours and its peers are measured in turn in one",
        "run, and each figure is the median of its values. *better* is the ratio of the two figures,",
        "turned so that more is better; a goal says how large it has to be. Where the peer is a *limit* or a",
        "floor, it is what the machine itself took in the same run, or a fixed figure.",
        "",
        f"Taken on {time.strftime('%Y-%m-%d', time.gmtime())} with",
        "",
        "```",
        " ".join(command),
        "```",
        "",
        *(f"- {line}" for line in (*machine(), *facts)),
        f"- load average {os.getloadavg()[0]:.1f} at the end",
        *_peers(comparisons),
        *(["", "## In words", "", *words] if len(words := in_words(comparisons)) > 2 else []),
        "",
        "## Every row",
        "",
        "| " + " | ".join(HEADINGS) + " |",
        "|" + "---|" * 3 + "---:|" * 4 + "---|",
        *rows,
        "",
        "Beside the rows (a floor is what the bare machine takes, a part a layer of ours alone):",
        "",
        *(f"- {row}: {note}" for row, note in notes.items()),
    ]
    return "\n".join(lines) + "\n"


def command_line() -> list[str]:
    """The command as typed in the project's folder, without paths of this machine."""
    words: list[str] = []
    for word in sys.argv[1:]:
        if words[-1:] == ["--cpp"]:
            words.pop()
        elif not word.startswith("--cpp="):
            words.append(Path(word).name if word.startswith("/") else word)
    return [f"bench/{Path(sys.argv[0]).name}", *words]

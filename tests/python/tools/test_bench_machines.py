"""`bench/machines.py` puts runs of several machines side by side. The figures here are made up."""

from __future__ import annotations

import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parents[3] / "bench"
sys.path.insert(0, str(BENCH))

import report  # noqa: E402
from machines import side_by_side  # noqa: E402
from rows.spec import Figures, Row, compare  # noqa: E402


def run(*rows: tuple[str, float, float]) -> str:
    """The Markdown of a run: names of rows with a goal of 10, ours, and the peer's."""
    found = [
        one
        for name, ours, theirs in rows
        for one in compare(Row(name, "us", 10), Figures(ours=[ours], peers={"peer": [theirs]}))
    ]
    return report.markdown(found, ["bench/run.py"])


def table(text: str) -> dict[str, list[str]]:
    rows = [line[2:-2].split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return {cells[0]: [cell.strip() for cell in cells[1:]] for cells in rows}


def test_a_goal_holds_when_it_holds_on_each() -> None:
    text = side_by_side([run(("a", 1, 20), ("b", 1, 20)), run(("a", 2, 30), ("b", 2, 10))])
    assert table(text)["a"] == ["peer", "us", "1", "2", "20", "15", ">= 10", "holds"]
    assert table(text)["b"] == ["peer", "us", "1", "2", "20", "5", ">= 10", "MISSED on B"]
    assert "- A: Taken on" in text
    assert "- B: Taken on" in text


def test_a_row_that_one_run_lacks() -> None:
    text = side_by_side([run(("a", 1, 20)), run(("c", 2, 30))])
    assert table(text)["a"] == ["peer", "us", "1", "", "20", "", ">= 10", "holds"]
    assert table(text)["c"] == ["peer", "us", "", "2", "", "15", ">= 10", "holds"]


def test_the_kept_run_is_read() -> None:
    kept = (BENCH / "RESULTS.md").read_text(encoding="utf-8")
    assert table(side_by_side([kept, kept]))["pipe-rtt"][0] == "multiprocessing"

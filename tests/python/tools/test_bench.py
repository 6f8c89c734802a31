"""The benchmarks run, and say what they promise to say. Their figures are nobody's test."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

RUN = Path(__file__).resolve().parents[3] / "bench" / "run.py"
sys.path.insert(0, str(RUN.parent))

from rows.spec import Figures, Row, choose, compare  # noqa: E402


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, RUN, *arguments], capture_output=True, text=True, check=False)


def test_list_names_the_rows() -> None:
    names = run("--list").stdout.split()
    assert len(names) == len(set(names))
    assert {
        "queue-rtt",
        "array-256M",
        "put-return-1M",
        "tail",
        "create-queue",
        "torch-list100",
        "cpp-mpmc",
    } <= set(names)


def test_an_unknown_row_is_an_error() -> None:
    answer = run("--rows", "queue-rtt,nonsense")
    assert answer.returncode != 0
    assert "nonsense" in answer.stderr


@pytest.mark.parametrize("row", ["queue-rtt", "array-4K"])
def test_a_row_is_measured(row: str, tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    answer = run("--rows", row, "--quick", "--repeat", "1", "--json", str(file))
    assert answer.returncode == 0, answer.stdout + answer.stderr
    (one,) = json.loads(file.read_text())
    assert (one["row"], one["peer"], one["unit"]) == (row, "multiprocessing", "us")
    assert one["ours"] > 0
    assert one["ratio"] == pytest.approx(one["theirs"] / one["ours"])
    assert one["holds"] == (one["ratio"] >= one["goal"])


def test_more_can_be_better() -> None:
    figures = Figures(ours=[60.0, 50.0, 70.0], peers={"theirs": [10.0]})
    (one,) = compare(Row("r", "k/s", 5, more_is_better=True), figures)
    assert one["ratio"] == pytest.approx(6)
    assert one["holds"]


@pytest.mark.parametrize(("floor", "holds"), [(1.0, False), (2.0, True)])
def test_a_limit_is_the_larger_of_a_figure_and_a_multiple_of_the_floor(floor: float, holds: bool) -> None:
    row = Row("r", "us", at_most=0.5, floor_factor=1.5)
    figures = Figures(ours=[2.5], peers={"pipe": [10.0]}, floors={"spin": [floor]})
    peer, limit = compare(row, figures)
    assert peer["holds"] is None
    assert limit["theirs"] == pytest.approx(1.5 * floor)
    assert limit["holds"] is holds


@pytest.mark.parametrize(("theirs", "limit", "holds"), [(1000.0, 300.0, False), (1200.0, 360.0, True)])
def test_a_limit_may_be_a_part_of_what_a_peer_takes(theirs: float, limit: float, holds: bool) -> None:
    row = Row("r", "ns", at_most=300, peer_factor=0.3, peer_of="other")
    figures = Figures(ours=[350.0], peers={"first": [1.0], "other": [theirs]})
    entry = compare(row, figures)[-1]
    assert entry["peer"] == "limit: 300 ns or 0.3 x other"
    assert entry["theirs"] == pytest.approx(limit)
    assert entry["holds"] is holds
    # Without that peer (not installed) the figure alone counts.
    assert compare(row, Figures(ours=[350.0], peers={"first": [1.0]}))[-1]["theirs"] == 300


def test_a_prefix_names_several_rows() -> None:
    rows = [Row("a", "us"), Row("a-1", "us"), Row("ab", "us")]
    assert [row.name for row in choose(rows, "a,a-1")] == ["a", "a-1"]

"""`bench/run.py --compare` tells what changed from what is noise. The figures here are made up."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[3] / "bench"
sys.path.insert(0, str(BENCH))

from compare import changes  # noqa: E402
from rows.spec import Comparison, Figures, Row, compare, spread  # noqa: E402

STEADY = [1.0, 1.01, 0.99, 1.0, 1.0]
ROUGH = [0.6, 0.8, 1.0, 1.4, 1.9]


def result(ours: list[float], theirs: list[float]) -> list[Comparison]:
    return compare(Row("r", "us"), Figures(ours=list(ours), peers={"peer": list(theirs)}))


@pytest.mark.parametrize(("factor", "verdict"), [(1.5, "WORSE"), (1.02, "noise"), (0.5, "better")])
def test_a_steady_row(factor: float, verdict: str) -> None:
    slower = [value * factor for value in STEADY]
    (one,) = changes(result(STEADY, STEADY), result(slower, STEADY))
    assert one.verdict == verdict
    assert one.factor == pytest.approx(1 / factor)


def test_a_machine_that_is_slower_as_a_whole_is_no_change() -> None:
    slow = [3 * value for value in STEADY]
    (one,) = changes(result(STEADY, STEADY), result(slow, slow))
    assert one.verdict == "noise"


def test_a_rough_row_needs_a_larger_change() -> None:
    slower = [value * 1.3 for value in ROUGH]
    assert changes(result(ROUGH, STEADY), result(slower, STEADY))[0].verdict == "noise"
    far_slower = [value * 5 for value in ROUGH]
    assert changes(result(ROUGH, STEADY), result(far_slower, STEADY))[0].verdict == "WORSE"


def test_a_run_without_its_values_counts_as_noisy() -> None:
    old = result(STEADY, STEADY)
    for one in old:
        del one["ours_values"], one["theirs_values"]
    slower = [value * 1.5 for value in STEADY]
    assert changes(old, result(slower, STEADY))[0].verdict == "noise"


def test_rows_that_one_run_lacks_are_left_out() -> None:
    assert changes([], result(STEADY, STEADY)) == []
    assert changes(json.loads((BENCH / "results.json").read_text()), result(STEADY, STEADY)) == []


def test_a_wide_spread_is_said_beside_the_row() -> None:
    assert spread(STEADY) < 0.2 < spread(ROUGH)
    assert "ours spreads by 60%" in result(ROUGH, STEADY)[0]["note"]
    assert "note" not in result(STEADY, STEADY)[0]


def test_more_values_of_a_row_are_added() -> None:
    figures = Figures(ours=[1.0], peers={"a": [2.0]})
    figures.extend(Figures(ours=[3.0], peers={"a": [4.0], "b": [5.0]}, floors={"f": [6.0]}))
    assert (figures.ours, figures.peers, figures.floors) == (
        [1.0, 3.0],
        {"a": [2.0, 4.0], "b": [5.0]},
        {"f": [6.0]},
    )

"""bench/distance.py: what is measured while the processors lie as they should, and what is not kept."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[3] / "bench"
sys.path.insert(0, str(BENCH))

import distance  # noqa: E402
from rows.spec import Figures  # noqa: E402

NEAR, FAR = 0.17, 0.69


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distance, "LOOK_S", 0)


def seen(*states: float) -> distance.Wanted:
    """Far processors are wanted, and each look sees the next of these."""
    looks = iter(states)
    return distance.Wanted(lambda: next(looks), above=0.4)


def numbered() -> Iterator[Figures]:
    number = 0
    while True:
        number += 1
        yield Figures(ours=[float(number)], peers={"theirs": [float(-number)]})


def test_rounds_that_begin_and_end_so_are_kept() -> None:
    rounds = numbered()
    # The first begins after two looks, the second ends near, the third is kept.
    state = seen(NEAR, NEAR, FAR, FAR, FAR, NEAR, FAR, FAR)
    figures = state.measure(lambda: next(rounds), 2)
    assert figures.ours == [1, 3]
    assert figures.peers == {"theirs": [-1, -3]}


def test_a_state_that_never_comes_is_an_error() -> None:
    state = distance.Wanted(lambda: NEAR, above=0.4)
    with pytest.raises(RuntimeError, match=r"not above 0\.4 us in 0 s"):
        state.await_it(0)


def test_a_state_that_never_lasts_is_an_error() -> None:
    states = iter([FAR, NEAR] * 100)
    state = distance.Wanted(lambda: next(states), above=0.4)
    rounds = numbered()
    with pytest.raises(RuntimeError, match="21 were lost"):
        state.measure(lambda: next(rounds), 1)


def test_without_the_program_it_says_which(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="nowhere, which looks at the distance, is not built"):
        distance.ring_us(tmp_path / "nowhere")


def test_limits_are_said() -> None:
    assert str(distance.Wanted(lambda: NEAR, below=0.4)) == "below 0.4 us"
    assert str(distance.Wanted(lambda: NEAR, below=0.4, above=0.1)) == "above 0.1 us and below 0.4 us"
    assert distance.Wanted(lambda: NEAR, below=0.4).holds()
    assert not distance.Wanted(lambda: FAR, below=0.4).holds()

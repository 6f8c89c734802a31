"""bench/distance.py: what is measured while the processors lie as they should, and what is not kept."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[3] / "bench"
sys.path.insert(0, str(BENCH))

import contenders  # noqa: E402
import distance  # noqa: E402
from rows.spec import Figures, Row, Scale  # noqa: E402

NEAR, FAR = 0.17, 0.69


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distance, "LOOK_S", 0)


def seen(*states: float) -> distance.Wanted:
    """Far processors are wanted, and each look sees the next of these."""
    looks = iter(states)
    return distance.Wanted(lambda: next(looks), above=0.4)


def test_what_begins_and_ends_so_is_kept() -> None:
    values = itertools.count(1)
    # The first begins after two looks and is kept; the second ends near; the third is kept.
    state = seen(NEAR, NEAR, FAR, FAR, NEAR, FAR, FAR)
    assert [state.take(lambda: next(values)) for _ in range(2)] == [1, 3]


def test_what_follows_at_once_needs_no_look_before_it() -> None:
    state = seen(FAR, FAR, FAR, FAR)
    assert [state.take(lambda: "value") for _ in range(3)] == ["value"] * 3


def test_a_state_that_never_comes_is_an_error() -> None:
    state = distance.Wanted(lambda: NEAR, above=0.4)
    with pytest.raises(RuntimeError, match=r"not above 0\.4 us in 0 s"):
        state.await_it(0)


def test_a_state_that_never_lasts_is_an_error() -> None:
    states = itertools.cycle([FAR, NEAR])
    state = distance.Wanted(lambda: next(states), above=0.4)
    with pytest.raises(RuntimeError, match=f"{distance.MOST_LOST + 1} were lost"):
        state.take(lambda: None)


def test_contenders_are_measured_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    # Two rounds of two contenders, of whose five measurements the second one ends near.
    state = seen(FAR, FAR, NEAR, FAR, FAR, FAR, FAR)
    asked: list[str] = []

    def program(figures: Figures, command: list[str], row: Row, nice: int) -> list[str]:
        assert command[1:5] == ["--rows", "a-row", "--repeat", "1"]
        if "--contenders" not in command:
            figures.left_out["missing"] = "is not built"
            return ["forklift", "theirs"]
        asked.append(command[-1])
        if command[-1] == "forklift":
            figures.ours = [float(len(asked))]
        else:
            figures.peers["theirs"] = [float(len(asked))]
        return [command[-1]]

    monkeypatch.setattr(contenders, "_run_cpp", program)
    figures = contenders.measure_cpp_in(state, Path("program"), Row("a-row", "us"), 2, Scale(), 0, False)
    assert asked == ["forklift", "theirs", "theirs", "forklift", "theirs"]
    assert figures.ours == [1, 4]
    assert figures.peers == {"theirs": [3, 5]}
    assert figures.left_out == {"missing": "is not built"}


def test_without_the_program_it_says_which(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="nowhere, which looks at the distance, is not built"):
        distance.ring_us(tmp_path / "nowhere")


def test_limits_are_said() -> None:
    assert str(distance.Wanted(lambda: NEAR, below=0.4)) == "below 0.4 us"
    assert str(distance.Wanted(lambda: NEAR, below=0.4, above=0.1)) == "above 0.1 us and below 0.4 us"
    assert distance.Wanted(lambda: NEAR, below=0.4).holds()
    assert not distance.Wanted(lambda: FAR, below=0.4).holds()

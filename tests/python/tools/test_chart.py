"""The drawings and the tables of figures: they are what the run gives, and a difference is noticed."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
BENCH = ROOT / "bench"
sys.path.insert(0, str(BENCH))

import chart  # noqa: E402
import from_markdown  # noqa: E402
import plot  # noqa: E402
import report  # noqa: E402

RESULTS = (BENCH / "RESULTS.md").read_text()
RUN: list[dict[str, Any]] = json.loads((BENCH / "results.json").read_text())


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize(
    "tool",
    [
        BENCH / "chart.py",
        BENCH / "plot.py",
        ROOT / "tools" / "readme_table.py",
        ROOT / "tools" / "architecture.py",
    ],
)
def test_what_is_committed_is_what_the_tool_makes(tool: Path) -> None:
    answer = run(tool, "--check")
    assert answer.returncode == 0, answer.stderr


def test_the_json_and_the_markdown_are_of_one_run() -> None:
    table = ["| " + " | ".join(report.cells(one)) + " |" for one in RUN]
    start = RESULTS.splitlines().index(table[0])
    assert RESULTS.splitlines()[start : start + len(table)] == table
    assert "\n".join(["## In words", "", *report.in_words(RUN), ""]) in RESULTS


def test_figures_survive_the_way_through_the_markdown() -> None:
    written = report.markdown(RUN, ["bench/run.py"])
    read = from_markdown.comparisons(written)
    assert [report.cells(one) for one in read] == [report.cells(one) for one in RUN]
    assert [one.get("note") for one in read] == [one.get("note") for one in RUN]


def test_a_changed_chart_is_noticed(tmp_path: Path) -> None:
    copy = tmp_path / "speed.svg"
    command = [BENCH / "chart.py", "--svg", copy]
    assert run(*command, "--check").returncode == 1
    assert run(*command).returncode == 0
    assert run(*command, "--check").returncode == 0
    copy.write_text(copy.read_text().replace("Taken on", "Drawn on"))
    answer = run(*command, "--check")
    assert answer.returncode == 1
    assert "run bench/chart.py" in answer.stderr


def test_figures_of_another_run_are_refused(tmp_path: Path) -> None:
    other = tmp_path / "results.json"
    other.write_text(json.dumps([{**RUN[0], "ours": RUN[0]["ours"] / 2}, *RUN[1:]]))
    answer = run(BENCH / "chart.py", "--json", other, "--svg", tmp_path / "speed.svg")
    assert answer.returncode == 1
    assert "of another run" in answer.stderr


def test_a_row_that_was_not_measured_is_named() -> None:
    without = [one for one in RUN if one["row"] != "lock"]
    with pytest.raises(SystemExit, match="no row lock beside multiprocessing"):
        chart.draw(chart.Figures(without, RESULTS), "")


@pytest.mark.parametrize("ratio", [0.0001, 0.5, 1.0, 10.0, 100_000.0])
def test_bars_stay_on_the_page(ratio: float) -> None:
    assert chart.LABELS <= chart.place(ratio) <= chart.LABELS + chart.FIELD


def test_longer_bars_are_faster() -> None:
    assert chart.place(0.9) < chart.place(1) < chart.place(2) < chart.place(200)


@pytest.mark.parametrize("name", ["speed", "architecture"])
def test_the_drawings_are_xml_with_colours_for_light_and_dark(name: str) -> None:
    text = (ROOT / "docs" / "images" / f"{name}.svg").read_text()
    drawing = ElementTree.fromstring(text)
    space = "{http://www.w3.org/2000/svg}"
    style = drawing.findtext(f"{space}style") or ""
    light, dark = style.split("@media (prefers-color-scheme: dark)")
    used = {shape.get("class") for shape in drawing if shape.get("class")}
    assert used
    for color in used:
        assert f".{color} " in light
        assert f".{color} " in dark


def test_the_architecture_names_each_room_that_has_sources() -> None:
    text = (ROOT / "docs" / "images" / "architecture.svg").read_text()
    rooms = [
        line.split(" | ")[0] for line in (ROOT / "src" / "rooms.txt").read_text().splitlines() if "|" in line
    ]
    for room in rooms[1:] if rooms[0].startswith("#") else rooms:
        assert (f">{room}</text>" in text) == (ROOT / "src" / room).is_dir()


def test_a_familys_curves_are_its_rows_in_seconds() -> None:
    def row(name: str, peer: str, unit: str, ours: float, theirs: float) -> dict[str, Any]:
        more = {"ratio": 1.0, "goal": None, "holds": None}
        return {"row": name, "peer": peer, "unit": unit, "ours": ours, "theirs": theirs, **more}

    rows: Any = [
        row("way-4K", "pipe", "us", 2.0, 8.0),
        row("way-64B", "pipe", "ns", 100.0, 900.0),
        row("way-64B", "once", "ns", 100.0, 5.0),
        row("way-64B", "limit: 1 ns", "ns", 100.0, 1.0),
        row("way-back-64B", "pipe", "ns", 7.0, 7.0),
    ]
    ours, pipe = plot.curves_of(rows, "way")
    assert (ours.name, pipe.name) == (plot.OURS, "pipe")
    assert ours.points == ((64, pytest.approx(100e-9)), (4096, pytest.approx(2e-6)))
    assert pipe.points == ((64, pytest.approx(900e-9)), (4096, pytest.approx(8e-6)))
    assert plot.size_text(4096) == "4 KB"
    assert plot.time_text(1e-5) == "10 us"


def test_every_peer_of_a_family_has_a_curve_of_its_own_colour(tmp_path: Path) -> None:
    peers = ["one", "two", "three", "four", "five", "six", "seven"]
    rows: Any = [
        {"row": f"array-{size}", "peer": peer, "unit": "us", "ours": 1.0, "theirs": float(time + 2)}
        | {"ratio": 2.0, "goal": None, "holds": None}
        for size in ("4K", "1M")
        for time, peer in enumerate(peers)
    ]
    markdown, svg = tmp_path / "RESULTS.md", tmp_path / "sizes.svg"
    markdown.write_text(report.markdown(rows, ["bench/run.py"]))
    plotting = [BENCH / "plot.py", "--markdown", str(markdown), "--family", "array", "--svg", str(svg)]
    assert run(*plotting).returncode == 0
    drawn = svg.read_text()
    root = ElementTree.fromstring(drawn)
    curves = [each.get("class") for each in root if each.tag.endswith("polyline")]
    assert len(curves) == len(set(curves)) == 1 + len(peers)
    for curve in curves:
        assert drawn.count(f".{curve} {{ stroke:") == 2  # on light and on dark pages
    for peer in peers:
        assert f">{peer}</text>" in drawn
    assert run(*plotting, "--check").returncode == 0

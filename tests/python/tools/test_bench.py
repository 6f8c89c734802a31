"""The benchmarks run, and say what they promise to say. Their figures are nobody's test."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import select
import shutil
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import pytest

RUN = Path(__file__).resolve().parents[3] / "bench" / "run.py"
sys.path.insert(0, str(RUN.parent))

import contenders  # noqa: E402
import peers  # noqa: E402
import report  # noqa: E402
from rows import ROWS  # noqa: E402
from rows.spec import Figures, Peer, Row, Scale, choose, compare  # noqa: E402


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
    one, *others = json.loads(file.read_text())
    assert (one["row"], one["peer"], one["unit"]) == (row, "multiprocessing", "us")
    assert one["ours"] > 0
    assert one["ratio"] == pytest.approx(one["theirs"] / one["ours"])
    assert one["holds"] == (one["ratio"] >= one["goal"])
    assert one["floor"] > 0
    assert all(other["goal"] is None for other in others)


def test_a_run_in_pieces_keeps_what_it_has(tmp_path: Path) -> None:
    file, markdown = tmp_path / "out.json", tmp_path / "out.md"
    adding = ["--quick", "--repeat", "1", "--add", "--json", str(file), "--markdown", str(markdown)]
    for row in ("create-queue", "create-lock", "create-queue"):
        assert run("--rows", row, *adding).returncode == 0
    assert [one["row"] for one in json.loads(file.read_text())] == ["create-queue", "create-lock"]
    assert "bench/run.py --rows create-queue,create-lock --quick" in markdown.read_text()
    assert run("--rows", "create-lock", "--add").returncode != 0  # to what?


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


def test_another_peer_is_measured_and_one_that_cannot_be_is_named() -> None:
    others = (
        Peer("here", lambda scale: 3.0, difference="polling"),
        Peer("gone", lambda scale: 1.0, missing="not installed"),
    )
    row = Row("r", "us", 10, others=others)
    assert [other.name for other in row.present] == ["here"]
    first, second = compare(row, Figures(ours=[1.0], peers={"multiprocessing": [20.0], "here": [3.0]}))
    assert (first["goal"], first["holds"]) == (10, True)
    assert (second["peer"], second["ratio"], second["goal"]) == ("here", 3.0, None)
    assert first["note"] == "here: polling; gone left out: not installed"


def _spinning(seconds: float) -> subprocess.Popen[str]:
    """A process whose second thread computes for so long, as those of OpenBLAS do after a product."""
    program = f"""
import threading, time
def spin():
    end = time.monotonic() + {seconds}
    while time.monotonic() < end: pass
    print("rests", flush=True)
threading.Thread(target=spin).start()
print("began", flush=True)
input()
"""
    process = subprocess.Popen([sys.executable, "-c", program], stdin=-1, stdout=-1, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "began\n"
    return process


def test_the_next_contender_waits_until_the_last_ones_threads_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    for seconds, most in ((0.3, 30.0), (30.0, 0.1)):
        monkeypatch.setattr(contenders, "MOST_REST_S", most)
        contender = contenders.Contender.__new__(contenders.Contender)
        with _spinning(seconds) as process:
            contender._process = process
            contender.rest()
            assert process.stdout is not None
            said = bool(select.select([process.stdout], [], [], 0)[0])
            process.kill()
        assert said is (seconds < most)


def test_a_peer_that_fails_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    class Made:
        """A contender whose values are made up."""

        closed: ClassVar[list[str]] = []
        rested: ClassVar[list[str]] = []

        def __init__(self, name: str, scale: Scale, nice: int) -> None:
            self.name = name

        def measure(self, row: str) -> float:
            if self.name == "broken":
                raise RuntimeError("broken ended with 1")
            return 2.0

        def rest(self) -> None:
            self.rested.append(self.name)

        def close(self) -> None:
            self.closed.append(self.name)

    monkeypatch.setattr(contenders, "Contender", Made)
    row = Row("r", "us", others=(Peer("broken", lambda scale: 1.0), Peer("whole", lambda scale: 1.0)))
    figures = contenders.measure(row, 2, Scale(tiny=True), 0, lambda: None)
    assert figures.ours == [2.0, 2.0]
    assert figures.peers == {"multiprocessing": [2.0, 2.0], "whole": [2.0, 2.0]}
    assert figures.left_out == {"broken": "broken ended with 1"}
    assert "broken" in Made.closed
    assert Made.rested == ["forklift.multiprocessing", "multiprocessing", "whole"] * 2
    # The contenders that a row needs are not optional.
    needed = Row("r", "us", peer="broken")
    with pytest.raises(RuntimeError, match="ended with 1"):
        contenders.measure(needed, 1, Scale(tiny=True), 0, lambda: None)
    # Rows can share their contenders, but not those of a row that failed.
    started: dict[str, contenders.Contender] = {}
    Made.closed.clear()
    contenders.measure(row, 1, Scale(tiny=True), 0, lambda: None, started)
    assert Made.closed == ["broken"]
    assert started.keys() == {"forklift.multiprocessing", "multiprocessing", "whole"}
    with pytest.raises(RuntimeError, match="ended with 1"):
        contenders.measure(needed, 1, Scale(tiny=True), 0, lambda: None, started)
    assert started.keys() == {"multiprocessing", "whole"}


WITH_OTHERS = choose(ROWS, "queue-rtt,queue-oneway,array-1M,pool-map-1,pool-map-auto,pool-apply")


@pytest.mark.parametrize("row", WITH_OTHERS, ids=lambda row: row.name)
def test_every_other_peer_that_is_installed_can_be_measured(row: Row) -> None:
    assert len(row.others) >= 4
    figures = contenders.measure(row, 1, Scale(tiny=True), 0, lambda: None)
    assert figures.left_out == {}
    assert set(figures.peers) == {row.peer, *(other.name for other in row.present)}
    for values in (figures.ours, *figures.peers.values(), *figures.floors.values()):
        (value,) = values
        assert value > 0


@pytest.mark.parametrize("name", ["array-64K", "bytes-16M", "bytes-lent-16M", "pipe-rtt"])
def test_a_row_without_other_peers_is_measured(name: str) -> None:
    (row,) = choose(ROWS, name)
    alone = dataclasses.replace(row, others=())
    figures = contenders.measure(alone, 1, Scale(tiny=True), 0, lambda: None)
    for values in (figures.ours, *figures.peers.values(), *figures.floors.values()):
        (value,) = values
        assert value > 0


@pytest.mark.parametrize("name", ["queue-rtt", "array"])
def test_the_floor_is_between_two_processes(name: str) -> None:
    rows = choose(ROWS, name)
    assert {row.floor_name for row in rows} == {"two processes: raw shared memory, spinning"}
    assert all(row.floor for row in rows)


@pytest.mark.parametrize(
    "name",
    [
        *("pipeline-1080p", "joblib-cv"),
        *(pytest.param(name, marks=pytest.mark.weekly) for name in ("job-photos", "job-busy", "rl-4-actors")),
    ],
)
def test_a_whole_job_runs_with_both_libraries(name: str) -> None:
    (row,) = choose(ROWS, name)
    figures = contenders.measure(row, 1, Scale(tiny=True), 0, lambda: None)
    ours, theirs = figures.ours[0], figures.peers[row.peer][0]
    assert ours > 0
    assert theirs > 0


@pytest.mark.weekly
def test_two_networks_are_measured() -> None:
    for package in ("torch", "mpi4py"):
        pytest.importorskip(package)
    if shutil.which("mpirun") is None:
        pytest.skip("there is no mpirun")
    command = [sys.executable, RUN.with_name("two_networks.py"), "--bytes", "2097152", "--count", "1"]
    answer = subprocess.run([*command, "--rounds", "1"], capture_output=True, text=True, check=False)
    if answer.stderr.startswith("no network namespaces on this machine"):
        pytest.skip(answer.stderr)
    assert answer.returncode == 0, answer.stderr
    found = re.findall(r"^(.{28}) +[\d.]+ ms, [\d.]+ times gloo", answer.stdout, re.MULTILINE)
    assert [name.strip() for name in found] == [
        "forklift::mpi::Group",
        "MPI_Allreduce",
        "torch.distributed, forklift",
        "torch.distributed, gloo",
    ]


PROGRAM = RUN.parents[1] / "build" / "release" / "bench" / "forklift_bench"
needs_program = pytest.mark.skipif(not PROGRAM.exists(), reason="make core")


def installed_cpp_peers() -> set[str]:
    """Those of the optional ones that are programs of their own."""
    found = {"UCX"} if shutil.which("ucx_perftest") else set()
    if PROGRAM.with_name("forklift_bench_mpi").exists() and shutil.which("mpirun"):
        found.add("Open MPI")
    if PROGRAM.with_name("forklift_bench_mpi5").exists() and peers.OPEN_MPI_5.exists():
        found.add("Open MPI 5")
    return found


@needs_program
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="Open MPI wants a processor for each rank")
@pytest.mark.parametrize("name", ["cpp-rtt-64B", "cpp-oneway-1M"])
def test_the_peers_of_cpp_that_are_installed_are_measured(name: str) -> None:
    row = next(row for row in ROWS if row.name == name)
    figures = contenders.measure_cpp(PROGRAM, row, 1, Scale(quick=True), 0, False)
    assert installed_cpp_peers() <= set(figures.peers)
    for values in (figures.ours, *figures.peers.values(), *figures.floors.values()):
        (value,) = values
        assert value > 0


@needs_program
def test_a_peer_of_cpp_that_is_not_installed_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    row = next(row for row in ROWS if row.name == "cpp-rtt-64B")
    figures = contenders.measure_cpp(PROGRAM, row, 1, Scale(quick=True), 0, False)
    assert "UCX" not in figures.peers
    reason = "there is no ucx_perftest (make setup-bench)"
    assert figures.left_out["UCX"] == reason
    assert f"UCX left out: {reason}" in str(compare(row, figures)[0]["note"])


def test_versions_of_the_peers_of_cpp() -> None:
    patterns = {
        "Open MPI": (shutil.which("mpirun"), r"mpirun \(Open MPI\) [\d.]+"),
        "Open MPI 5": (peers.OPEN_MPI_5.exists(), r"mpirun \(Open MPI\) 5[\d.]+"),
        "UCX": (shutil.which("ucx_info"), r"UCX [\d.]+"),
    }
    for peer, (is_there, pattern) in patterns.items():
        found = peers.versions([peer])
        assert len(found) == bool(is_there)
        assert all(re.fullmatch(pattern, version) for version in found)


def test_the_report_names_versions() -> None:
    figures = Figures(ours=[1.0], peers={"multiprocessing": [20.0], "joblib": [3.0]})
    text = report.markdown(compare(Row("r", "us"), figures), ["bench/run.py"])
    (line,) = (line for line in text.splitlines() if line.startswith("- beside "))
    assert re.fullmatch(r"- beside multiprocessing of Python [\d.]+, joblib [\d.]+", line)

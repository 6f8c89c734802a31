"""Runtimes x start methods x states: what was expected before it was run, and what happens.

Each row is an interpreter of its own (fork_cells.py). FORK and CONTROL were written before the first run;
where the run showed something else, a comment says so. docs/fork.md has the same table: a test compares them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import fork_cells
import pytest

STATES = fork_cells.STATES
REFUSED = "ForkRefusedError"
CELLS = str(Path(fork_cells.__file__))
DOCUMENT = Path(__file__).parents[3] / "docs" / "fork.md"

# Runtime -> what a fork ends with in each of STATES, under the policy "error". Where there are several, the
# moment decides.
_HANG_IS_SAID = {"result", "ForkHangError"}
FORK: dict[str, tuple[set[str], ...]] = {
    "OpenBLAS": ({"result"}, {"result"}, {"result"}, {"result"}),
    "libgomp": ({"result"}, {"result"}, {"result"}, {"result"}),
    # Expected: results. Seen once, on a loaded machine: a hang, of the standard library in the same run, too.
    "libomp": ({"result"}, _HANG_IS_SAID, _HANG_IS_SAID, _HANG_IS_SAID),
    "torch": ({"result"}, {"result"}, {"result"}, {"result"}),
    "JAX": ({REFUSED}, {REFUSED}, {REFUSED}, {REFUSED}),
    "pyarrow": ({"result"}, {"result"}, {"result"}, {"result"}),
    # Expected: results, and with calls in flight errors. Seen with calls in flight: aborts (SIGABRT), too. So
    # it "may hang", and the policy refuses it.
    "gRPC": ({REFUSED}, {REFUSED}, {REFUSED}, {REFUSED}),
}
# The standard library. Calls in flight are a matter of the moment, too, and so is what signal ends a child:
# SIGABRT and SIGSEGV were seen.
_MAY_HANG = {"result", "hang", "hang of the parent"}
_FAILS = {*_MAY_HANG, "error in the child", "crash"}
CONTROL: dict[str, tuple[set[str], ...]] = {
    # Expected for the calls of another thread: the child hangs. Seen: the parent hangs, in fork() itself.
    "OpenBLAS": ({"result"}, {"result"}, _MAY_HANG, _MAY_HANG),
    "libgomp": ({"result"}, {"hang"}, {"hang"}, {"hang"}),
    "libomp": ({"result"}, {"result", "hang"}, {"result", "hang"}, {"result", "hang"}),
    # Expected for "idle": a result, since the child computes little. Seen: it hangs all the same.
    "torch": ({"hang"}, {"hang"}, {"hang"}, {"hang"}),
    "JAX": ({"hang"}, {"hang"}, {"hang"}, {"hang"}),
    "pyarrow": ({"result"}, {"result"}, {"result"}, {"result"}),
    "gRPC": ({"result", "error in the child"}, {"result", "error in the child"}, _FAILS, _FAILS),
}
RESULTS: tuple[set[str], ...] = ({"result"},) * len(STATES)

Row = tuple[str, str, str]


def expected(library: str, runtime: str, method: str) -> tuple[set[str], ...]:
    if method != "fork":
        return RESULTS
    return (FORK if library == "forklift" else CONTROL)[runtime]


def run_row(row: Row) -> dict[str, str]:
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "2",
        "OPENBLAS_NUM_THREADS": "2",
        "GRPC_VERBOSITY": "NONE",
    }
    environment["PYTHONPATH"] = str(Path(CELLS).parent)
    try:
        done = subprocess.run(
            [sys.executable, CELLS, *row],
            capture_output=True,
            text=True,
            timeout=180 if row[0] == "forklift" else 120,  # its parent may hang, too
            check=False,
            env=environment,
        )
    except subprocess.TimeoutExpired:
        return dict.fromkeys(STATES, "no end of the row")
    try:
        found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        return dict.fromkeys(STATES, f"exit {done.returncode}: {done.stderr[-500:]}")
    return found


def remove_records_of_libomp() -> None:
    """libomp has a file for each process, which stays where a process ends without its handlers."""
    for path in Path("/dev/shm").glob("__KMP_REGISTERED_LIB_*"):
        if not Path("/proc", path.name.split("_")[-2]).exists():
            path.unlink(missing_ok=True)


def in_words(outcomes: set[str]) -> str:
    return " or ".join(sorted(outcomes, reverse=True))


def table(title: str, rows: dict[Row, dict[str, str]]) -> str:
    lines = [title, f"{'':<24}" + "".join(f"{state:<20}" for state in STATES)]
    for (_, runtime, method), found in rows.items():
        cells = [found.get(state, "-") for state in STATES] if "skipped" not in found else ["skipped"]
        lines.append(f"{runtime + ', ' + method:<24}" + "".join(f"{cell:<20}" for cell in cells).rstrip())
    return "\n".join(lines)


def check(rows: list[Row], title: str, at_once: int, capsys: pytest.CaptureFixture[str]) -> None:
    with ThreadPoolExecutor(at_once) as threads:
        found = dict(zip(rows, threads.map(run_row, rows), strict=True))
    remove_records_of_libomp()
    with capsys.disabled():
        print("\n" + table(title, found))
    for (library, runtime, _), outcomes in found.items():
        # The standard library's parent may hang in fork() itself, and then no cell of its row is heard of.
        parent_may_hang = library != "forklift" and any(
            "hang of the parent" in cell for cell in CONTROL[runtime]
        )
        if parent_may_hang and "no end of the row" in outcomes.values():
            outcomes["skipped"] = "the parent hung"
    wrong = [
        f"{library} {runtime} {method}, {state}: {outcomes.get(state)}, expected {in_words(wanted)}"
        for (library, runtime, method), outcomes in found.items()
        if "skipped" not in outcomes
        for state, wanted in zip(STATES, expected(library, runtime, method), strict=True)
        if outcomes.get(state, "-").split(" (")[0] not in wanted
    ]
    assert not wrong, "\n".join(wrong)
    skipped = [f"{row[1]}: {outcomes['skipped']}" for row, outcomes in found.items() if "skipped" in outcomes]
    if len(skipped) == len(rows):
        pytest.skip("; ".join(skipped))


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    "method",
    ["fork", *(pytest.param(method, marks=pytest.mark.weekly) for method in ("forkserver", "spawn"))],
)
def test_every_cell_ends_in_a_result_or_a_typed_error(
    method: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [("forklift", runtime, method) for runtime in fork_cells.RUNTIMES]
    check(rows, f"forklift, {method}", 2, capsys)


@pytest.mark.slow
@pytest.mark.weekly
@pytest.mark.timeout(400)
def test_the_standard_library_hangs_where_the_control_says(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [("multiprocessing", runtime, "fork") for runtime in fork_cells.RUNTIMES]
    check(rows, "the standard library, fork", 4, capsys)


def rows_of_document() -> list[str]:
    lines = []
    for runtime in fork_cells.RUNTIMES:
        for library, name in (("forklift", "Forklift"), ("multiprocessing", "standard library")):
            cells = " | ".join(in_words(cell) for cell in expected(library, runtime, "fork"))
            lines.append(f"| {runtime} | {name} | {cells} |")
    return lines


def test_the_document_has_what_is_expected() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    missing = [row for row in rows_of_document() if row not in text]
    assert not missing, "docs/fork.md lacks these rows:\n" + "\n".join(missing)

"""What tracing costs while nobody records: this build beside one without tracing, both alternating.

    python bench/tracing.py --rounds 12 --markdown bench/RESULTS-tracing.md

Builds the second one itself (build/untraced, and a copy of the installed package with its core), which
takes some minutes. Rows: cpp-rtt-64B and cpp-mpmc (bench/cpp), queue-rtt (bench/rows/queues.py). Each round
measures every row in both builds, in turn the one first and the other; medians over all rounds are compared.
And, in the ordinary build, cpp-trace-on: one event while somebody records.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TRACED, UNTRACED = ROOT / "build/release", ROOT / "build/untraced"
CPP_ROWS = ("cpp-rtt-64B", "cpp-mpmc")
_EVENTS = "forklift,a moment,two clock readings"
GOAL = 1.02
_RTT = """
import json, sys
sys.path.insert(0, sys.argv[1])
import forklift.multiprocessing as library
from rows.queues import queue_rtt
from rows.spec import Library, Scale
if __name__ == "__main__":
    print(json.dumps(queue_rtt(Library("forklift", library), Scale(quick=True))))
"""


def build() -> Path:
    """The build without tracing. Returns the folder whose package has its core."""
    binaries = ROOT / ".venv/bin"
    environment = os.environ | {"PATH": f"{binaries}:{os.environ['PATH']}"}
    configure: list[str | Path] = [
        "cmake",
        "-S",
        ROOT,
        "-B",
        UNTRACED,
        "-G",
        "Ninja",
        "-D",
        "CMAKE_BUILD_TYPE=Release",
    ]
    options = {"TRACING": "OFF", "BUILD_BENCH": "ON", "BUILD_TESTS": "OFF", "BUILD_PYTHON": "ON"}
    configure += [f"-DFORKLIFT_{name}={value}" for name, value in options.items()]
    configure += [f"-DPython_EXECUTABLE={sys.executable}", "--log-level=WARNING"]
    compile_them: list[str | Path] = ["cmake", "--build", UNTRACED, "--target", "forklift_bench", "_core"]
    for command in (configure, compile_them):
        subprocess.run(command, check=True, env=environment)
    import forklift

    (installed,) = forklift.__path__
    packages = UNTRACED / "packages"
    shutil.rmtree(packages, ignore_errors=True)
    shutil.copytree(installed, packages / "forklift")
    (core,) = (UNTRACED / "bindings").glob("_core.*.so")
    shutil.copy2(core, packages / "forklift" / core.name)
    return packages


def cpp(tree: Path, rows: str, contenders: str = "forklift") -> dict[str, list[float]]:
    """The values, by row and contender."""
    command: list[str | Path] = [tree / "bench/forklift_bench", "--rows", rows, "--repeat", "3"]
    command += ["--contenders", contenders]
    said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600).stdout
    lines = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    return {f"{line['row']}, {line['contender']}": line["values"] for line in lines if line["role"] != "peer"}


def queue_rtt(packages: Path | None) -> float:
    environment = dict(os.environ)
    if packages is not None:
        environment["PYTHONPATH"] = str(packages)
    command = [sys.executable, "-c", _RTT, str(ROOT / "bench")]
    said = subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=600, env=environment
    ).stdout
    return float(json.loads(said))


def main() -> int:
    """Measure, print, and write the table. 1: a row misses its goal."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    packages = build()
    values: dict[str, tuple[list[float], list[float]]] = {}
    for number in range(options.rounds):
        for untraced in (number % 2 == 0, number % 2 == 1):
            found = cpp(UNTRACED if untraced else TRACED, ",".join(CPP_ROWS))
            found["queue-rtt"] = [queue_rtt(packages if untraced else None)]
            for row, each in found.items():
                values.setdefault(row, ([], []))[untraced].extend(each)
    lines = ["| row | with tracing, off | without | ratio |", "|---|---|---|---|"]
    missed = False
    for row, (traced, untraced_values) in sorted(values.items()):
        ours, bare = statistics.median(traced), statistics.median(untraced_values)
        missed |= "forklift" in row and ours > GOAL * bare
        lines.append(f"| {row} | {ours:.4g} | {bare:.4g} | {ours / bare:.3f} |")
    lines += ["", "| event | ns |", "|---|---|"]
    lines += [
        f"| {row.removeprefix('cpp-trace-')} | {statistics.median(each):.1f} |"
        for row, each in cpp(TRACED, "cpp-trace-on,cpp-trace-off", _EVENTS).items()
    ]
    print("\n".join(lines))
    if options.markdown:
        command = f"python bench/tracing.py --rounds {options.rounds}"
        head = f"# What tracing costs\n\n`{command}`: medians, both builds alternating.\n\n"
        options.markdown.write_text(head + "\n".join(lines) + "\n", encoding="utf-8")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())

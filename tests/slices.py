#!/usr/bin/env python3
"""Finds wake-ups that are never given: all tests, in a build whose sleepers do not look around by themselves.

    python tests/slices.py                 C++ and Python
    python tests/slices.py --only cpp      (or python)

Every wait sleeps in slices, so that a death cannot delay it for long. A slice also hides a missing
notification: the sleeper finds out by itself, some 200 ms late. In the build FORKLIFT_LONG_SLICES a sleeper
that nobody woke looks for deaths as ever, but sleeps on for ten seconds; so a test that takes seconds longer
than it should has met one.

Prints each test that failed or took more than LIMIT_S; the exit status is 1 if there is one that
slices_allowed.txt does not excuse. The wheel lies in build/slices/site and is used through PYTHONPATH.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "slices"
SITE = BUILD / "site"
BIN = Path(sys.executable).parent
LIMIT_S = 8.0


class Case(NamedTuple):
    name: str
    seconds: float
    failed: bool


def allowed() -> list[str]:
    """Patterns of names, each behind the reason why that test takes its time."""
    lines = (ROOT / "tests" / "slices_allowed.txt").read_text().splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def run(*command: str | Path, cwd: Path = ROOT, **environment: str) -> int:
    print("+", *command, flush=True)
    return subprocess.run([*map(str, command)], cwd=cwd, env=os.environ | environment, check=False).returncode


def must(*command: str | Path, **environment: str) -> None:
    if status := run(*command, **environment):
        raise SystemExit(f"{command[0]} ended with {status}")


def cases(report: Path) -> Iterator[Case]:
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        place = case.get("classname") or ""
        name = case.get("name") or ""
        bad = case.get("status") == "fail" or any(case.find(tag) is not None for tag in ("failure", "error"))
        yield Case(name if place in ("", name) else f"{place}.{name}", float(case.get("time") or 0), bad)


def cpp(jobs: str) -> list[Case]:
    must(BIN / "cmake", "--preset", "slices", "--log-level=WARNING")
    must(BIN / "cmake", "--build", "--preset", "slices", "-j", jobs, "--target", "forklift_tests")
    report = BUILD / "cpp.xml"
    report.unlink(missing_ok=True)
    # What only compiles or begins wrongly has no sleeper.
    run(BIN / "ctest", "--test-dir", BUILD, "-L", "^unit$", "-E", "^(refused|header|init)", "-j", jobs,
        "--output-junit", report, "-Q")  # fmt: skip
    return list(cases(report))


def python(jobs: str, arguments: list[str]) -> list[Case]:
    must(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index",
         "--no-deps", "--no-build-isolation", "--upgrade", "--target", SITE,
         "-C", "build-dir=build/slices/wheel", "-C", "cmake.define.FORKLIFT_LONG_SLICES=ON", ".",
         CMAKE_BUILD_PARALLEL_LEVEL=jobs)  # fmt: skip
    report = BUILD / "python.xml"
    report.unlink(missing_ok=True)
    run(sys.executable, "-m", "pytest", "-q", "--junitxml", report, *arguments, PYTHONPATH=str(SITE))
    return list(cases(report))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=["cpp", "python"])
    parser.add_argument("--jobs", default=str(os.cpu_count() or 1))
    parser.add_argument("pytest", nargs="*", help="arguments for pytest, behind --")
    options = parser.parse_args()

    found: list[Case] = []
    if options.only != "python":
        found += cpp(options.jobs)
    if options.only != "cpp":
        found += python(options.jobs, options.pytest)
    excuses = allowed()
    wrong = 0
    for case in sorted(found, key=lambda each: -each.seconds):
        if not case.failed and case.seconds < LIMIT_S:
            continue
        excused = not case.failed and any(fnmatch.fnmatch(case.name, pattern) for pattern in excuses)
        wrong += not excused
        what = "failed" if case.failed else "takes its time" if excused else "NOT WOKEN"
        print(f"{what:>15}  {case.seconds:6.1f} s  {case.name}")
    print(f"slices: {len(found) - wrong} passed, {wrong} failed")
    return 1 if wrong or not found else 0


if __name__ == "__main__":
    sys.exit(main())

"""Runs a package's suite plain and with Forklift in the place of `multiprocessing`, and compares the tests.

torch's is also run with the import of `torch.multiprocessing` replaced by that of `forklift.multiprocessing`,
and all of it once with each sharing strategy.

A test that does worse with Forklift is repeated, both ways, since some of these suites have tests that fail
now and then by themselves: it counts as worse if it passes less often.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import fnmatch
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from packages import Found, Missing, find

PLUGIN = Path(__file__).resolve().parent / "plugin"
WAYS: dict[str, list[str]] = {
    "plain": ["-m", "pytest"],
    "ours": ["-m", "forklift", "-m", "pytest"],
    "import": ["-m", "pytest"],
}
GOOD = ("passed", "xfailed", "xpassed")
# How often pytest may be killed by a test, and be started again for those that are left.
MOST_ENDS = 8
REPEATS = 2


@dataclasses.dataclass
class Result:
    """What became of one test."""

    outcome: str
    why: str = ""


@dataclasses.dataclass
class Totals:
    """What became of all tests of a suite, one way."""

    results: dict[str, Result] = dataclasses.field(default_factory=dict)
    seconds: float = 0.0

    def __str__(self) -> str:
        counts = collections.Counter(each.outcome for each in self.results.values())
        good = sum(counts.pop(each, 0) for each in GOOD)
        skipped = counts.pop("skipped", 0)
        bad = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
        return f"{good} passed, {bad or '0 failed'}, {skipped} skipped"


class Runner:
    """Runs pytest on the tests of a suite."""

    def __init__(self, python: str, found: Found, options: argparse.Namespace, scratch: Path) -> None:
        self._python, self._found, self._options, self._scratch = python, found, options, scratch
        self._number = 0
        self.settings: dict[str, str] = {}

    def ways(self) -> list[str]:
        """Those with Forklift; each is compared with "plain"."""
        return ["ours", "import"] if self._found.suite.swap else ["ours"]

    def _root(self, way: str) -> Path:
        """The folder to which the names of the tests are relative."""
        suite = self._found.suite
        if not suite.copied:
            return self._found.root
        root = self._scratch / way
        for name in suite.tests if not root.exists() else ():
            text = (self._found.root / name).read_text(encoding="utf-8")
            if way == "import" and suite.swap:
                if suite.swap[0] not in text:
                    raise ValueError(f"{name} has no line {suite.swap[0]!r}")
                text = text.replace(*suite.swap)
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text, encoding="utf-8")
        return root

    def run(self, way: str, only: list[str] | None = None) -> Totals:
        """All tests, or those in `only`."""
        totals = Totals()
        began = time.monotonic()
        for tests in [tuple(only)] if only else self._found.runs:
            self._run_files(way, tests, bool(only), totals.results)
        totals.seconds = time.monotonic() - began
        return totals

    def _run_files(self, way: str, tests: tuple[str, ...], by_name: bool, results: dict[str, Result]) -> None:
        ended: list[str] = []
        for _ in range(MOST_ENDS):
            said, how = self._run_once(way, tests, by_name, ended)
            current = None
            for line in said:
                if "begins" in line:
                    current = line["begins"]
                elif "ends" in line:
                    before = results.get(line["ends"])
                    if before is None or before.outcome in GOOD:  # an error of the tear-down comes second
                        results[line["ends"]] = Result(line["outcome"], line["why"])
                elif "finished" in line:
                    return
            if current is None:
                results[f"(all of {' '.join(tests)})"] = Result("error", how)
                return
            if current not in results:
                results[current] = Result("ended", how)
            ended = list(results)
        results["(the rest)"] = Result("missing", f"pytest was ended {MOST_ENDS} times")

    def _run_once(
        self, way: str, tests: tuple[str, ...], by_name: bool, done: list[str]
    ) -> tuple[list[dict[str, str]], str]:
        """What the plugin said, and how pytest ended."""
        self._number += 1
        said, log = self._scratch / f"{self._number}.said", self._scratch / f"{self._number}.log"
        said.touch()
        suite = self._found.suite
        command = [self._python, *WAYS[way], "-p", "forklift_outcomes", "-p", "no:cacheprovider", "-q"]
        command += [f"--timeout={self._options.limit}", "--timeout-method=signal", *suite.options]
        root = self._root(way)
        in_place = self._found.is_checkout and not suite.copied
        command += ["--rootdir", str(root)] + ([] if in_place else ["-c", os.devnull])
        select = self._options.select or suite.select
        command += ["-k", select] if select and not by_name else []
        command += [f"--deselect={each}" for each in done]
        with open(log, "wb") as file:
            process = subprocess.Popen(
                [*command, *(str(root / each) for each in tests)],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                cwd=root if in_place else self._scratch,
                env=self._variables(said),
                start_new_session=True,
            )
        how = self._wait(process)
        lines = [json.loads(line) for line in said.read_text().splitlines()]
        return lines, f"pytest {how}\n{log.read_text(errors='replace')[-4000:]}"

    def _wait(self, process: subprocess.Popen[bytes]) -> str:
        try:
            process.wait(self._options.total)
            how = f"ended with {process.returncode}"
        except subprocess.TimeoutExpired:
            how = f"was killed after {self._options.total:g} s"
        with contextlib.suppress(ProcessLookupError):  # and what it may have left
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return how

    def _variables(self, said: Path) -> dict[str, str]:
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "FORKLIFT"))
        }
        return (
            kept
            | self.settings
            | {
                "FORKLIFT_OUTCOMES": str(said),
                "PYTHONPATH": str(PLUGIN),
                "PYTHONFAULTHANDLER": "1",
                "TMPDIR": str(self._scratch),
            }
        )


def _left_out(name: str, way: str, tests: Iterable[str], known: list[dict[str, str]]) -> dict[str, str]:
    """Those of the tests that are not compared, and why."""
    return {
        test: each["reason"]
        for test in tests
        for each in known
        if each["suite"] == name and each.get("way", way) == way and fnmatch.fnmatchcase(test, each["name"])
    }


def _worse(plain: Totals, ours: Totals) -> list[str]:
    """The tests that are good plain and not with ours, or that only exist plain."""
    missing = Result("missing")
    return [
        name
        for name, result in plain.results.items()
        if result.outcome in GOOD and ours.results.get(name, missing).outcome not in GOOD
    ] + [
        name
        for name, result in ours.results.items()
        if name not in plain.results and result.outcome not in (*GOOD, "skipped")
    ]


def _repeat(runner: Runner, way: str, name: str) -> tuple[int, int]:
    """How often a test passes when it is repeated, plain and with ours."""
    passed = {"plain": 0, way: 0}
    for _ in range(REPEATS):
        for each in passed:
            results = runner.run(each, [name]).results
            passed[each] += any(result.outcome in GOOD for result in results.values())
    return passed["plain"], passed[way]


def _compare(name: str, found: Found, options: argparse.Namespace) -> tuple[list[list[str]], list[str]]:
    """The rows of the table, and the tests that do worse with ours."""
    rows, worse = [], []
    with tempfile.TemporaryDirectory(prefix="fl-", ignore_cleanup_errors=True) as scratch:
        runner = Runner(options.python, found, options, Path(scratch))
        for runner.settings in found.suite.settings:
            title = " ".join([name, found.version, *runner.settings.values()])
            plain = runner.run("plain")
            print(f"{title}, plain: {plain} in {plain.seconds:.0f} s", flush=True)
            for way in runner.ways():
                ours = runner.run(way)
                print(f"{title}, {way}: {ours} in {ours.seconds:.0f} s", flush=True)
                bad = _worse_after_all(name, runner, way, plain, ours, options)
                better = sum(
                    each.outcome not in GOOD and ours.results.get(test, each).outcome in GOOD
                    for test, each in plain.results.items()
                )
                times = f"{plain.seconds:.0f} / {ours.seconds:.0f}"
                label = title if len(runner.ways()) == 1 else f"{title}, {way}"
                rows.append([label, str(plain), str(ours), str(len(bad)), str(better), times])
                worse += bad
    return rows, worse


def _worse_after_all(
    name: str, runner: Runner, way: str, plain: Totals, ours: Totals, options: argparse.Namespace
) -> list[str]:
    """The tests that do worse, also when they are repeated."""
    worse = []
    left_out = _left_out(name, way, ours.results, options.left_out)
    for test, reason in left_out.items():
        print(f"not compared: {test}: {reason}")
    for test in _worse(plain, ours):
        if test in left_out:
            continue
        result = ours.results.get(test, Result("missing"))
        alone = not test.startswith("(")
        before, now = _repeat(runner, way, test) if alone else (1, 0)
        print(f"\n{result.outcome}: {test} (repeated: plain {before} of {REPEATS}, ours {now})", flush=True)
        if now < before or not alone:
            worse.append(test)
            print("\n".join("    " + line for line in result.why.splitlines()), flush=True)
    return worse


def main(options: argparse.Namespace) -> int:
    """Every suite that was asked for; 0 if ours does as well as the standard library in all of them."""
    checkouts = dict(each.rpartition("=")[::2] for each in options.checkout)
    rows, bad = [["suite", "plain", "ours", "worse", "better", "s"]], []
    for name in options.suite:
        path = checkouts.get(name) or (checkouts.get("") if len(options.suite) == 1 else None)
        try:
            found = find(name, options.python, Path(path) if path else None)
        except Missing as error:
            print(error, file=sys.stderr, flush=True)
            rows.append([name, "not found", "", "", "", ""])
            bad.append(name)
            continue
        found_rows, worse = _compare(name, found, options)
        rows += found_rows
        bad += [f"{name}: {test}" for test in worse]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    print()
    for each in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(each, widths, strict=True)).rstrip())
    for test in bad:
        print(f"worse: {test}")
    return 1 if bad else 0

"""The public tests of the Python array API standard, unmodified, against ``forklift.ops``.

Each file of the suite is run by a pytest of its own, several at a time. array_api.toml names what of the
standard is not claimed, each with its reason: those tests are not run. Every other test that fails is a
failure, and so is an entry of that file for a function that is there.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import dataclasses
import fnmatch
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from packages import Found, Missing, find

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    from pip._vendor import tomli as tomllib  # type: ignore[no-redef,unused-ignore]

HERE = Path(__file__).resolve().parent
UNCLAIMED = HERE / "array_api.toml"
NAMESPACE = "forklift.ops"
GOOD = ("passed", "xfailed", "xpassed")
# The suite's tests named after a function or a method: of its values, its presence and its signature.
NAMED = ("*::test_{0}", "*::test_{0}[[]*", "*::test_has_names[[]*-{0}]", "*::test_*_signature[[]{0}]")


@dataclasses.dataclass(frozen=True)
class Unclaimed:
    """An entry of array_api.toml: a function of the standard, or tests by a pattern, and why."""

    reason: str
    functions: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()

    def patterns(self) -> list[str]:
        """As fnmatch has them, of pytest's names of tests."""
        return [each.format(name) for name in self.functions for each in NAMED] + list(self.tests)


def read_unclaimed(path: Path = UNCLAIMED) -> list[Unclaimed]:
    """What array_api.toml says."""
    with open(path, "rb") as file:
        listed = tomllib.load(file)
    return [
        Unclaimed(each["reason"], tuple(each.get("functions", ())), tuple(each.get("tests", ())))
        for each in listed["unclaimed"]
    ]


def present(entries: list[Unclaimed], names: set[str]) -> list[str]:
    """Functions that are said not to be claimed, and are there."""
    return sorted(name for each in entries for name in each.functions if name in names)


class Suite:
    """The suite in a checkout, run by an interpreter that can import forklift."""

    def __init__(self, found: Found, options: argparse.Namespace, scratch: Path) -> None:
        self._root, self._options, self._scratch = found.root, options, scratch
        self._skips = scratch / "skips.txt"

    def _pytest(self, *arguments: str, outcomes: Path | None = None) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        own = {
            "ARRAY_API_TESTS_MODULE": NAMESPACE,
            "HYPOTHESIS_STORAGE_DIRECTORY": str(self._scratch),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": str(HERE / "plugin"),
            "FORKLIFT_OUTCOMES": str(outcomes or os.devnull),
        }
        command = [self._options.python, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        command += ["-p", "forklift_outcomes", "--disable-deadline", "--derandomize"]
        command += ["--max-examples", str(self._options.examples)]
        return subprocess.run(
            [*command, *arguments],
            cwd=self._root,
            env=kept | own,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=self._options.total,
        )

    def tests(self) -> list[str]:
        """The names of all tests, as pytest has them."""
        select = ["-k", self._options.select] if self._options.select else []
        done = self._pytest("--collect-only", "--disable-warnings", *select, "array_api_tests")
        found = [
            line for line in done.stdout.splitlines() if line.startswith("array_api_tests/") and "::" in line
        ]
        if not found:
            sys.exit(f"array-api: the suite cannot be loaded\n{(done.stdout + done.stderr)[-4000:]}")
        return found

    def run(self, tests: list[str], skipped: list[str]) -> dict[str, dict[str, str]]:
        """What became of each test."""
        self._skips.write_text("".join(f"{name}\n" for name in skipped))
        by_file = collections.defaultdict(list)
        for test in tests:
            by_file[test.partition("::")[0]].append(test)
        results: dict[str, dict[str, str]] = {}
        with concurrent.futures.ThreadPoolExecutor(self._options.jobs) as pool:
            for outcomes in pool.map(self._run_file, by_file, by_file.values()):
                results.update(outcomes)
        return results

    def _run_file(self, file: str, tests: list[str]) -> dict[str, dict[str, str]]:
        said = self._scratch / (file.replace("/", "-") + ".said")
        said.touch()
        select = ["-k", self._options.select] if self._options.select else []
        try:
            done = self._pytest(f"--skips-file={self._skips}", *select, file, outcomes=said)
            how = f"pytest ended with {done.returncode}\n{(done.stdout + done.stderr)[-2000:]}"
        except subprocess.TimeoutExpired:
            how = f"pytest was killed after {self._options.total:g} s"
        results = {}
        for line in map(json.loads, said.read_text().splitlines()):
            if "ends" in line and results.get(line["ends"], {}).get("outcome") not in ("failed", "error"):
                results[line["ends"]] = {"outcome": line["outcome"], "why": line["why"]}
        missing = {"outcome": "error", "why": f"was not run: {how}"}
        return {test: results.get(test, missing) for test in tests}


def _names(python: str) -> set[str]:
    """What the namespace and its arrays have."""
    question = f"import json, {NAMESPACE} as xp; print(json.dumps(dir(xp) + dir(type(xp.asarray(1)))))"
    done = subprocess.run([python, "-c", question], stdout=subprocess.PIPE, text=True, check=True)
    return set(json.loads(done.stdout))


def _run(found: Found, options: argparse.Namespace) -> int:
    began = time.monotonic()
    entries = read_unclaimed()
    stale = present(entries, _names(options.python))
    with tempfile.TemporaryDirectory(prefix="fl-", ignore_cleanup_errors=True) as scratch:
        suite = Suite(found, options, Path(scratch))
        tests = suite.tests()
        unclaimed = {
            test: each.reason
            for each in entries
            for pattern in each.patterns()
            for test in fnmatch.filter(tests, pattern)
        }
        results = suite.run(tests, list(unclaimed))
    counts = collections.Counter[str]()
    for test, result in results.items():
        kind = result["outcome"]
        counts["passed" if kind in GOOD else "skipped" if kind == "skipped" else "failed"] += 1
        if kind not in (*GOOD, "skipped"):
            print(f"{kind}: {test}")
            print("\n".join("    " + line for line in result["why"].splitlines()[-options.lines :]))
    for reason, number in collections.Counter(unclaimed.values()).items():
        print(f"not claimed: {number} tests: {reason}")
    for name in stale:
        print(f"stale: {name} is there, and {UNCLAIMED.name} says that it is not claimed")
    ran = counts["passed"] + counts["failed"]
    print(
        f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped "
        f"({len(unclaimed)} of them not claimed) in {time.monotonic() - began:.0f} s: "
        f"{100 * counts['passed'] / max(ran, 1):.1f} % of what was run, "
        f"{100 * counts['passed'] / len(results):.1f} % of the suite"
    )
    return 1 if counts["failed"] or stale or not ran else 0


def main(options: argparse.Namespace) -> int:
    """The suite in the checkout that the options name. 0: nothing failed."""
    checkouts = dict(each.rpartition("=")[::2] for each in options.checkout)
    path = checkouts.get("array-api") or checkouts.get("")
    try:
        found = find("array-api", options.python, Path(path) if path else None)
    except Missing as error:
        print(f"{error}\narray-api: the suite was not run", file=sys.stderr)
        return 1
    return _run(found, options)

"""CPython's own tests of multiprocessing, unmodified, against Forklift in its place.

    tests/conformance/run.py --suite cpython --start-method fork       # spawn, forkserver, main, futures, all
    tests/conformance/run.py --start-method spawn --only '*TestQueue*' --control

Each suite is the interpreter's own copy of the tests, run in an environment whose every interpreter (children
with -E and -I included) has `multiprocessing` replaced. `main` is test_multiprocessing_main_handling,
`futures` the process parts of test_concurrent_futures. A case that takes longer than --limit fails, with all
stacks shown. --control runs the same cases on the standard library afterwards; --short is what `make test`
runs.

    tests/conformance/run.py --suite joblib                            # installed with its tests
    tests/conformance/run.py --suite pebble --checkout ../pebble
    tests/conformance/run.py --suite loky --suite dask --checkout loky=../loky
    tests/conformance/run.py --suite pytorch --checkout ../pytorch     # or FORKLIFT_PYTORCH=../pytorch

    tests/conformance/run.py --suite array-api --checkout ../array-api-tests   # or FORKLIFT_ARRAY_API=...

The public tests of the array API standard are run against forklift.ops; array_api.toml names what is not
claimed.

Other packages' suites (packages.py says which) are run as they are, by pytest, once plain and once under
`python -m forklift`, and compared test by test. A table is printed, and the exit status is 0 if no test does
worse with Forklift.

Of CPython's tests the last line is `N passed, M failed, K skipped`, of the array API's it begins so; the exit
status is 0 if nothing failed. deviations.toml names what is left out, and why.
"""

from __future__ import annotations

import argparse
import dataclasses
import fnmatch
import signal
import sys
import time
from pathlib import Path
from typing import Any

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    from pip._vendor import tomli as tomllib  # type: ignore[no-redef,unused-ignore]

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import array_api  # noqa: E402
import environment  # noqa: E402
import packages  # noqa: E402
import suites as other_suites  # noqa: E402
from case_runner import Case, CaseRunner  # noqa: E402

# So many cases of a suite may be left out.
MOST_LEFT_OUT = 12
SUITES = ("fork", "spawn", "forkserver", "main", "futures")
# What `make test` runs of each: what Forklift's own code has most to do with there. All of "fork".
SHORT: dict[str, list[str]] = {
    "fork": [],
    "spawn": [
        "WithProcessesTestQueue",
        "TestSimpleQueue",
        "WithProcessesTestLock",
        "WithProcessesTestCondition",
        "WithProcessesTestSemaphore",
        "WithProcessesTestEvent",
    ],
    "forkserver": [
        "WithProcessesTestConnection",
        "WithProcessesTestListener",
        "WithProcessesTestPickling",
        "WithProcessesTestPoll",
        "WithProcessesTestValue",
        "WithProcessesTestArray",
        "WithProcessesTestBarrier",
    ],
}


@dataclasses.dataclass
class Totals:
    """What became of one suite in one environment."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    failures: list[Case] = dataclasses.field(default_factory=list)

    def __add__(self, other: Totals) -> Totals:
        return Totals(
            self.passed + other.passed,
            self.failed + other.failed,
            self.skipped + other.skipped,
            self.seconds + other.seconds,
            self.failures + other.failures,
        )

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


@dataclasses.dataclass
class Deviation:
    """A case that is left out."""

    name: str
    reason: str
    suites: list[str] = dataclasses.field(default_factory=lambda: list(SUITES))
    until: str = "python3.99"  # the first version in which it is run

    def matches(self, suite: str, case: str, version: str) -> bool:
        if environment.number(version) >= environment.number(self.until):
            return False
        return suite in self.suites and fnmatch.fnmatchcase(short(case), self.name)


def short(case: str) -> str:
    """Class.method, without the module."""
    return ".".join(case.split(".")[-2:])


def read_listed(kind: str) -> list[dict[str, Any]]:
    with open(HERE / "deviations.toml", "rb") as file:
        listed: list[dict[str, Any]] = tomllib.load(file)[kind]
    return listed


def read_deviations() -> list[Deviation]:
    return [Deviation(**each) for each in read_listed("case")]


def chosen(cases: dict[str, list[str]], patterns: list[str]) -> dict[str, list[str]]:
    """The cases that one of the patterns fits; a pattern without * fits wherever it occurs."""
    if not patterns:
        return cases
    patterns = [each if "*" in each else f"*{each}*" for each in patterns]
    found = {
        cls: [name for name in names if any(fnmatch.fnmatchcase(f"{cls}.{name}", each) for each in patterns)]
        for cls, names in cases.items()
    }
    return {cls: names for cls, names in found.items() if names}


def without(
    suite: str, cases: dict[str, list[str]], deviations: list[Deviation], version: str
) -> dict[str, list[str]]:
    left_out = [
        (case, each)
        for cls, names in cases.items()
        for name in names
        for each in deviations
        if each.matches(suite, case := f"{cls}.{name}", version)
    ]
    for case, each in left_out:
        print(f"left out  {short(case)}: {each.reason}")
    gone = {case for case, _ in left_out}
    if len(gone) > MOST_LEFT_OUT:
        sys.exit(f"{suite}: {len(gone)} cases are left out, {MOST_LEFT_OUT} may be")
    kept = {cls: [name for name in names if f"{cls}.{name}" not in gone] for cls, names in cases.items()}
    return {cls: names for cls, names in kept.items() if names}


def run(
    env: environment.Environment,
    suite: str,
    cases: dict[str, list[str]],
    options: argparse.Namespace,
) -> Totals:
    began = time.monotonic()
    runner = CaseRunner(env, suite, options.jobs, options.limit)
    totals = Totals()
    for case in runner.run(cases):
        if options.verbose or case.outcome == "failed":
            print(f"{case.outcome:8}  {short(case.name)}  {case.seconds:.2f} s", flush=True)
        if case.outcome == "failed":
            totals.failures.append(case)
            print("\n".join("    " + line for line in case.why.splitlines()), flush=True)
        setattr(totals, case.outcome, getattr(totals, case.outcome) + 1)
    for note in runner.notes:
        print(f"note      {note}")
    totals.seconds = time.monotonic() - began
    return totals


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--suite", action="append", choices=["cpython", *packages.SUITES])
    parser.add_argument(
        "--checkout", action="append", default=[], metavar="[SUITE=]PATH", help="where a suite's sources are"
    )
    parser.add_argument(
        "--select", metavar="EXPRESSION", help="the suites' tests to run, as pytest -k takes it"
    )
    parser.add_argument("--total", type=float, default=1800.0, help="seconds that one pytest may take (1800)")
    parser.add_argument("--start-method", action="append", choices=[*SUITES, "all"], metavar="METHOD")
    parser.add_argument("--python", default=sys.executable, help="an interpreter that can import forklift")
    parser.add_argument("--only", action="append", default=[], metavar="PATTERN", help="cases to run")
    parser.add_argument("--short", action="store_true", help="a selection of fork, spawn and forkserver")
    parser.add_argument("--control", action="store_true", help="the standard library as well, to compare")
    parser.add_argument("--control-only", action="store_true", help="the standard library alone")
    parser.add_argument("--jobs", type=int, default=2, help="processes at once (2)")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds that a case may take (120)")
    parser.add_argument("--examples", type=int, default=100, help="of each of array-api's tests (100)")
    parser.add_argument("--lines", type=int, default=20, help="to show of a failure of array-api (20)")
    parser.add_argument("--verbose", action="store_true", help="a line for each case")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    # In the background shells have it ignored, and so would the tests, some of which are about it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if options.suite and options.suite != ["cpython"]:
        if "cpython" in options.suite:
            sys.exit("--suite cpython is run by itself")
        if "array-api" in options.suite:
            if len(options.suite) > 1:
                sys.exit("--suite array-api is run by itself")
            return array_api.main(options)
        options.left_out = read_listed("test")
        return other_suites.main(options)
    suites = options.start_method or ["all"]
    if "all" in suites:
        suites = list(SUITES)
    if options.short:
        suites = list(SHORT)
    if options.short and not environment.has_tests(options.python):
        print(f"{options.python} came without CPython's tests: no conformance run")
        return 0
    deviations = read_deviations()
    ours, theirs = Totals(), Totals()
    with environment.pair(options.python) as (replaced, standard):
        for suite in suites:
            cases = chosen(standard.cases(suite), SHORT[suite] if options.short else options.only)
            if not options.control_only:
                kept = without(suite, cases, deviations, replaced.version())
                totals = run(replaced, suite, kept, options)
                print(f"{suite}: {totals} in {totals.seconds:.1f} s", flush=True)
                ours += totals
            if options.control or options.control_only:
                totals = run(standard, suite, cases, options)
                print(f"{suite}, standard library: {totals} in {totals.seconds:.1f} s", flush=True)
                theirs += totals
    for case in ours.failures:
        print(f"failed: {case.suite}: {short(case.name)}")
    if options.control_only:
        ours = theirs
    elif options.control:
        print(f"standard library: {theirs} in {theirs.seconds:.1f} s; Forklift in {ours.seconds:.1f} s")
    print(ours)
    return 1 if ours.failed or not ours.passed else 0


if __name__ == "__main__":
    sys.exit(main())

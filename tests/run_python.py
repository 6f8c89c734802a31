"""The Python tests in several pytest processes at once: what `make test-py` runs.

    tests/run_python.py [--jobs N] [--weekly | --every] [FILE_OR_FOLDER ...] [-- PYTEST_ARGUMENT ...]

Tests marked `weekly` are left out; with --weekly they alone are run, with --every they as well.

Each process takes files from one list until it is empty, those with slow tests first, in batches that become
smaller. A batch's output is printed when the batch ends, and at the end once more how tests failed. The last
line has the sums:

    ====== 2 failed, 2981 passed, 7 skipped in 801.20s ======

Each pytest mounts a /dev/shm of its own, so that its leak check sees only its own entries. Where this user
may not mount one, the files are run by one process after the other.

The exit status is 0 if each batch's was.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests" / "python"
# What pytest's exit status says: all passed, and no test was selected.
PASSED, NONE_SELECTED = 0, 5
COUNT = re.compile(r"(\d+) (failed|passed|skipped|xfailed|xpassed|errors?|deselected)")
# pytest's title of a failed test, and of what follows the last.
TITLE = re.compile(r"_{3,} \S.* _{3,}$")
SUMMARY = "= short test summary info ="
LINES_OF_A_FAILURE = 40
SLOW = re.compile(r"mark\.(slow|weekly)")
# At most so many files in a batch: a process that stalls must not keep the other from its half.
LARGEST_BATCH = 12


def files_of(paths: list[str]) -> list[Path]:
    """The test files, first those with slow tests and with relatives of weekly ones, which are slow, too."""
    found: list[Path] = []
    for path in [Path(text).resolve() for text in paths] or [TESTS]:
        found += sorted(path.rglob("test_*.py")) if path.is_dir() else [path]
    return sorted(found, key=lambda file: -len(SLOW.findall(file.read_text(encoding="utf-8"))))


class Batches:
    """Hands out what is left, in pieces of a share of it."""

    def __init__(self, files: list[Path], jobs: int) -> None:
        self._lock = threading.Lock()
        self._files = files
        self._jobs = jobs

    def __iter__(self) -> Iterator[list[Path]]:
        while True:
            with self._lock:
                count = min(max(len(self._files) // (3 * self._jobs), 1), LARGEST_BATCH)
                batch, self._files = self._files[:count], self._files[count:]
            if not batch:
                return
            yield batch


class Run:
    """The processes' outcomes, and the lock of what they print."""

    def __init__(self, arguments: list[str]) -> None:
        self._arguments = arguments
        self._lock = threading.Lock()
        self.counts: Counter[str] = Counter()
        self.failed = False
        self.failures: list[str] = []  # lines

    def work(self, batches: Batches) -> None:
        for batch in batches:
            command = [sys.executable, "-m", "pytest", *self._arguments, *map(str, batch)]
            done = subprocess.run(
                command,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                check=False,
            )
            lines = done.stdout.rstrip().splitlines() or [
                f"pytest ended with {done.returncode} and said nothing"
            ]
            with self._lock:
                print("\n".join(lines), flush=True)
                for count, what in COUNT.findall(lines[-1]):
                    self.counts["error" if what == "errors" else what] += int(count)
                if done.returncode not in (PASSED, NONE_SELECTED):
                    self.failed = True
                    self.failures += failures_in(lines)
                    names = " ".join(str(file.relative_to(ROOT)) for file in batch)
                    print(f"pytest ended with {done.returncode}: {names}", flush=True)


def failures_in(lines: list[str]) -> list[str]:
    """How tests failed: the ends of pytest's sections of them, or of all that it said."""
    titles = [at for at, line in enumerate(lines) if TITLE.match(line)]
    if not titles:
        return lines[-LINES_OF_A_FAILURE:]
    last = next((at for at in range(titles[-1], len(lines)) if SUMMARY in lines[at]), len(lines))
    found: list[str] = []
    for begin, end in zip(titles, [*titles[1:], last], strict=True):
        found += [lines[begin], *lines[max(begin + 1, end - LINES_OF_A_FAILURE) : end]]
    return found


def may_mount() -> bool:
    command = ["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/dev/shm"]
    try:
        return subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 0
    except FileNotFoundError:
        return False


def main() -> int:
    arguments = sys.argv[1:]
    split = arguments.index("--") if "--" in arguments else len(arguments)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=2, help="pytest processes at once (default 2)")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--weekly", action="store_true", help="only the tests that are marked weekly")
    which.add_argument("--every", action="store_true", help="the tests that are marked weekly as well")
    parser.add_argument("paths", nargs="*")
    options = parser.parse_args(arguments[:split])
    jobs = options.jobs if options.jobs == 1 or may_mount() else 1
    begin = time.monotonic()
    chosen = [] if options.every else ["-m", "weekly" if options.weekly else "not weekly"]
    batches, run = Batches(files_of(options.paths), jobs), Run([*chosen, *arguments[split + 1 :]])
    workers = [threading.Thread(target=run.work, args=(batches,), daemon=True) for _ in range(jobs)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if run.failures:
        print("\n".join(["====== how tests failed", *run.failures]))
    sums = ", ".join(f"{count} {what}" for what, count in sorted(run.counts.items())) or "no tests"
    print(f"====== {sums} in {time.monotonic() - begin:.2f}s ======")
    return int(run.failed or not run.counts)


if __name__ == "__main__":
    sys.exit(main())

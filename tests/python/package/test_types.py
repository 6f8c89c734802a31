"""What mypy --strict knows of a program that uses Forklift, and which mistakes it finds."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mypy")

TYPED = Path(__file__).parents[1] / "typed"
# A checkout of typeshed, whose own cases for multiprocessing are then checked with our import.
TYPESHED = os.environ.get("FORKLIFT_TYPESHED")


def mypy(*paths: Path, cache: Path) -> list[str]:
    """What it says of these files, as "line: severity: text  [code]"."""
    options = [
        "--strict",
        "--warn-unreachable",
        "--no-pretty",
        "--no-error-summary",
        "--config-file=",
    ]
    command = [sys.executable, "-m", "mypy", *options, "--cache-dir", str(cache), *map(str, paths)]
    # Not in this folder: the package has to be found where it is installed.
    done = subprocess.run(command, cwd=cache, capture_output=True, text=True, timeout=110)
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mypy")


def test_a_typed_program_is_understood(cache: Path) -> None:
    assert mypy(TYPED / "program.py", cache=cache) == []


def test_every_mistake_is_found(cache: Path) -> None:
    path = TYPED / "mistakes.py"
    wanted = {
        (number, frozenset(found.group(1).split()))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if (found := re.search(r"# E: (.+)", line))
    }
    said = [re.match(r".*?:(\d+): error: (.*)  \[(.+)\]$", line) for line in mypy(path, cache=cache)]
    found = {(int(each.group(1)), each.group(3)): each.group(2) for each in said if each}
    by_line: dict[int, set[str]] = {}
    for number, code in found:
        by_line.setdefault(number, set()).add(code)
    missed = [number for number, codes in wanted if not codes & by_line.get(number, set())]
    assert not missed, f"not found: lines {sorted(missed)}; found: {found}"
    others = sorted(set(by_line) - {number for number, _ in wanted})
    assert not others, (
        f"more is found than there are mistakes: {[each for each in found.items() if each[0][0] in others]}"
    )


def test_the_cases_of_typeshed(cache: Path, tmp_path: Path) -> None:
    """Its own test cases of multiprocessing, with the import changed."""
    if TYPESHED is None:
        pytest.skip("FORKLIFT_TYPESHED names no checkout of python/typeshed")
    cases = sorted(Path(TYPESHED, "stdlib/@tests/test_cases/multiprocessing").glob("*.py"))
    assert cases
    for case in cases:
        text = re.sub(
            r"^(from|import) multiprocessing", r"\1 forklift.multiprocessing", case.read_text(), flags=re.M
        )
        (tmp_path / case.name).write_text(text)
    assert mypy(*tmp_path.glob("*.py"), cache=cache) == []

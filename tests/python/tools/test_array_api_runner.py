"""The runner of the array API standard's tests, on a small suite with the real one's layout and options."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

CONFORMANCE = Path(__file__).resolve().parents[2] / "conformance"

CONFTEST = """
import pytest

def pytest_addoption(parser):
    parser.addoption("--disable-deadline", action="store_true")
    parser.addoption("--derandomize", action="store_true")
    parser.addoption("--max-examples", type=int)
    parser.addoption("--skips-file")

def pytest_collection_modifyitems(config, items):
    if config.getoption("--skips-file"):
        with open(config.getoption("--skips-file")) as file:
            skipped = file.read().splitlines()
        for item in items:
            if item.nodeid in skipped:
                item.add_marker(pytest.mark.skip(reason="listed"))
"""
TESTS = """
import importlib, os
import pytest

xp = importlib.import_module(os.environ["ARRAY_API_TESTS_MODULE"])

def test_add():
    assert (xp.asarray(1) + 1).dtype == xp.int64

def test_lift():
    xp.lift

@pytest.mark.parametrize("name", ["elementwise-add", "elementwise-lift"])
def test_has_names(name):
    assert hasattr(xp, name.partition("-")[2])

def test_other():
    assert xp.pi == 3
"""


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(CONFORMANCE))
    return importlib.import_module("array_api")


@pytest.fixture
def found(runner: Any, tmp_path: Path) -> Any:
    (tmp_path / "array_api_tests").mkdir()
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "array_api_tests" / "test_some.py").write_text(TESTS)
    (tmp_path / "array_api_tests" / "test_broken.py").write_text(
        "import os\ndef test_end():\n    os._exit(3)\n"
    )
    packages = importlib.import_module("packages")
    return packages.Found(packages.SUITES["array-api"], "", tmp_path, True, ())


def options() -> argparse.Namespace:
    return argparse.Namespace(python=sys.executable, jobs=2, examples=5, total=60.0, select=None, lines=5)


def test_what_is_listed_is_left_out(
    runner: Any, found: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = runner.Unclaimed("not built", functions=("lift",))
    monkeypatch.setattr(runner, "read_unclaimed", lambda: [entry])
    assert runner._run(found, options()) == 1
    said = capsys.readouterr().out.splitlines()
    some = "array_api_tests/test_some.py"
    assert f"failed: {some}::test_other" in said
    assert "error: array_api_tests/test_broken.py::test_end" in said
    assert any("pytest ended with 3" in line for line in said)
    assert "not claimed: 2 tests: not built" in said
    assert not any("stale" in line or "lift" in line for line in said)
    assert said[-1].startswith("2 passed, 2 failed, 2 skipped (2 of them not claimed) in ")
    assert said[-1].endswith(" s: 50.0 % of what was run, 33.3 % of the suite")


def test_what_is_there_must_not_be_listed(
    runner: Any, found: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    entries = [
        runner.Unclaimed("not built", functions=("lift", "add")),
        runner.Unclaimed("wrong", tests=("*::test_other", "*::test_end")),
    ]
    monkeypatch.setattr(runner, "read_unclaimed", lambda: entries)
    assert runner._run(found, options()) == 1
    said = capsys.readouterr().out.splitlines()
    assert "stale: add is there, and array_api.toml says that it is not claimed" in said
    assert not any(line.startswith(("failed", "error")) for line in said)


def test_a_missing_checkout_is_said(runner: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = argparse.Namespace(python=sys.executable, checkout=[f"array-api={tmp_path}"])
    assert runner.main(wanted) == 1
    said = capsys.readouterr().err
    assert "has no array_api_tests: is it a checkout of https://github.com/data-apis/array-api-tests?" in said
    assert "git submodule update --init" in said
    assert said.endswith("array-api: the suite was not run\n")


def test_each_entry_has_a_reason(runner: Any) -> None:
    entries = runner.read_unclaimed()
    assert entries
    assert all(each.reason and (each.functions or each.tests) for each in entries)

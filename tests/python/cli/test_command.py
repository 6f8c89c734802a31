"""The ``forklift`` command and ``python -m forklift``: what they say, and what a program's end looks like."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import forklift
import pytest
from plain_programs import FORKLIFT, PROGRAM, WHO_AM_I, answer, python, write

WAYS = {
    "script": ["failing.py"],
    "module": ["-m", "failing"],
    "code": ["-c", "import failing"],
    "folder": ["folder"],
    "wrong": ["wrong.py"],
}


@pytest.mark.parametrize("way", WAYS)
def test_tracebacks_are_the_programs_alone(way: str, tmp_path: Path) -> None:
    write(
        tmp_path / "failing.py",
        "def f():\n    try:\n        1 / 0\n    except ArithmeticError:\n        {}[3]\nf()",
    )
    write(tmp_path / "folder" / "__main__.py", "raise LookupError(7)")
    write(tmp_path / "wrong.py", "def f(:")
    plain, ours = (python(*before, *WAYS[way], cwd=tmp_path) for before in ([], FORKLIFT))
    assert plain.returncode == ours.returncode == 1
    assert ours.stderr == plain.stderr
    assert ours.stderr


def test_a_programs_own_hook_gets_the_programs_frames(tmp_path: Path) -> None:
    program = """
import sys, traceback
def hook(kind, error, trace):
    print(kind.__name__, [each.name for each in traceback.extract_tb(trace)])
    print([each.name for each in traceback.extract_tb(error.__traceback__)])
assert sys.excepthook is sys.__excepthook__
sys.excepthook = hook
raise KeyError(1)
"""
    plain, ours = (python(*before, "-c", program, cwd=tmp_path) for before in ([], FORKLIFT))
    assert (ours.returncode, ours.stdout, ours.stderr) == (plain.returncode, plain.stdout, plain.stderr)
    assert "KeyError ['<module>']" in ours.stdout


def test_the_command_and_what_it_says_of_itself(tmp_path: Path) -> None:
    command = Path(sys.executable).with_name("forklift")
    version = python(*FORKLIFT, "--version", cwd=tmp_path)
    assert version.stdout == f"forklift {forklift.__version__}\n"
    said = python(*FORKLIFT, "--help", cwd=tmp_path).stdout
    for option in ("-m MODULE", "-c CODE", "SCRIPT", "--report", "--cmake-dir", "--version"):
        assert option in said
    write(tmp_path / "package" / "__init__.py", "")
    write(tmp_path / "package" / "program.py", PROGRAM)
    write(tmp_path / "here" / "script.py", WHO_AM_I)

    def by_command(*arguments: str) -> Any:
        done = subprocess.run(
            [command, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=100
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    assert by_command("--version") == version.stdout
    assert json.loads(by_command("-m", "package.program", "spawn"))["seen"][3]
    assert json.loads(by_command("here/script.py", "1")) == answer("here/script.py", "1", cwd=tmp_path)

"""tools/check_imports.py: the package passes, and each kind of seeded circle is found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
TOOL = ROOT / "tools" / "check_imports.py"


def run_check(*package: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, TOOL, *package], capture_output=True, text=True, check=False, timeout=60
    )


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A small package without a circle: a imports b, b imports sub.c."""
    for name, text in {
        "scratch/__init__.py": "",
        "scratch/a.py": "from scratch import b\n",
        "scratch/b.py": "from scratch.sub import c\n",
        "scratch/sub/__init__.py": "",
        "scratch/sub/c.py": "import os\n\nname = 'scratch.a'\n",
        "scratch/_core.pyi": "from scratch import a\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "scratch"


def test_this_package_has_no_circle() -> None:
    result = run_check()
    assert (result.returncode, result.stderr) == (0, "")


def test_a_package_without_fault_passes(package: Path) -> None:
    result = run_check(package)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize(
    "text",
    [
        "import scratch.a\n",
        "import scratch.a as other\n",
        "from scratch import a\n",
        "from scratch.a import something\n",
        "from .. import a\n",
        "from ..a import something\n",
        "def late():\n    from scratch import a\n",
        "class C:\n    def late(self):\n        import scratch.a\n",
        "try:\n    import scratch.a\nexcept ImportError:\n    pass\n",
        "TYPE_CHECKING = False\nif not TYPE_CHECKING:\n    import scratch.a\n",
        "TYPE_CHECKING = False\nif TYPE_CHECKING:\n    pass\nelse:\n    import scratch.a\n",
        "__import__('scratch.a')\n",
        "import importlib\n\nmodule = importlib.import_module('scratch.a')\n",
    ],
)
def test_each_kind_of_circle_is_found(package: Path, text: str) -> None:
    (package / "sub" / "c.py").write_text(text)
    result = run_check(package)
    assert result.returncode == 1
    assert "a circle of 3 modules: " in result.stderr
    for step in ("a.py:1 imports scratch.b", "b.py:1 imports scratch.sub.c", "imports scratch.a\n"):
        assert step in result.stderr


@pytest.mark.parametrize(
    "text",
    [
        "TYPE_CHECKING = False\nif TYPE_CHECKING:\n    import scratch.a\n",
        "import typing\n\nif typing.TYPE_CHECKING:\n    from scratch import a\n",
        "import scratch\n",
        "from .c import itself\n",
    ],
)
def test_what_closes_no_circle(package: Path, text: str) -> None:
    (package / "sub" / "c.py").write_text(text)
    result = run_check(package)
    assert (result.returncode, result.stderr) == (0, "")


def test_a_relative_name_in_a_call_is_an_import(package: Path) -> None:
    (package / "b.py").write_text("found = load('.a')\n")
    result = run_check(package)
    assert result.returncode == 1
    assert "a circle of 2 modules: " in result.stderr


def _copy_of_the_package(folder: Path) -> Path:
    copy = folder / "forklift"
    for path in (ROOT / "python" / "forklift").rglob("*.py*"):
        if path.suffix in (".py", ".pyi"):
            target = copy / path.relative_to(ROOT / "python" / "forklift")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(path.read_text())
    return copy


def test_an_import_of_a_later_room_is_found(tmp_path: Path) -> None:
    copy = _copy_of_the_package(tmp_path)
    with (copy / "errors.py").open("a") as file:
        file.write("\n\ndef late() -> None:\n    import forklift.cli.cmake\n")
    result = run_check(copy)
    assert result.returncode == 1
    assert "forklift.errors imports forklift.cli.cmake of a later room" in result.stderr
    assert "circle" not in result.stderr


def test_an_exception_that_is_not_needed_is_found(tmp_path: Path) -> None:
    copy = _copy_of_the_package(tmp_path)
    pool = copy / "multiprocessing" / "pool.py"
    text = pool.read_text().replace("from forklift.multiprocessing.context import", "from os import")
    pool.write_text(text)
    result = run_check(copy)
    assert result.returncode == 1
    assert "forklift.multiprocessing.pool does not import forklift.multiprocessing.context" in result.stderr

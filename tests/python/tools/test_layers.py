"""tools/check_layers.py: this tree passes, and each kind of seeded violation is caught."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
TOOL = ROOT / "tools" / "check_layers.py"


def run_check(root: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, TOOL, root], capture_output=True, text=True, check=False, timeout=60
    )


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small tree without a fault."""
    for name, text in {
        "include/forklift/status.h": "#include <string>\n",
        "include/forklift/tensor.h": '#include "forklift/status.h"\n',
        "src/os/fd.h": '#include "forklift/status.h"\n',
        "src/arena/block.h": '#include "os/fd.h"\n#include <vector>\n',
        "src/tensor/tensor.cpp": '#include "forklift/tensor.h"\n#include "arena/block.h"\n',
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_this_tree_keeps_to_its_layers() -> None:
    result = run_check(ROOT)
    assert result.returncode == 0, result.stderr


def test_a_tree_without_fault_passes(tree: Path) -> None:
    result = run_check(tree)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize(
    ("file", "text", "complaint"),
    [
        ("src/os/fd.h", '#include "arena/block.h"\n', "layer os includes arena/block.h of the later layer"),
        ("src/os/fd.h", "  # include <arena/block.h>\n", "src/os/fd.h:1: layer os includes"),
        ("src/os/fd.h", '\n#include "../arena/block.h"\n', "src/os/fd.h:2: layer os includes"),
        ("src/arena/block.h", '#include "forklift/tensor.h"\n', "of the later layer tensor"),
        ("include/forklift/status.h", '#include "os/fd.h"\n', "a public header includes os/fd.h of src/"),
        ("include/forklift/status.h", '#include "../../src/os/fd.h"\n', "a public header includes"),
        ("include/forklift/status.h", '#include "forklift/tensor.h"\n', "of the later layer tensor"),
        ("include/forklift/unheard_of.h", "", "has no layer"),
        ("src/os/fd.h", '#include "forklift/unheard_of.h"\n', "has no layer"),
        ("src/misc/x.cpp", "", "not directly in the folder of a layer"),
        ("bindings/x.h", "{ nb::gil_scoped_release r; }\n", "bindings/x.h:1: gil_scoped_release: use"),
        ("bindings/x.cpp", "const nb::gil_scoped_release r;\n", "bindings/x.cpp:1: gil_scoped_release: use"),
        ("src/os/deep/x.cpp", "", "not directly in the folder of a layer"),
        ("src/os/long.cpp", "//\n" * 451, "451 lines"),
        ("python/forklift/long.py", "#\n" * 451, "451 lines"),
    ],
)
def test_a_seeded_violation_is_caught(tree: Path, file: str, text: str, complaint: str) -> None:
    path = tree / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    result = run_check(tree)
    assert result.returncode == 1
    assert complaint in result.stderr


def test_a_file_somewhat_long_is_only_noted(tree: Path) -> None:
    (tree / "src/os/long.cpp").write_text("//\n" * 420)
    result = run_check(tree)
    assert result.returncode == 0
    assert "420 lines" in result.stdout

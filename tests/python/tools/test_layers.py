"""tools/check_layers.py: this tree passes, and each kind of seeded violation is caught."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
TOOL = ROOT / "tools" / "check_layers.py"


ROOMS = """# room | part | what it holds | what it knows nothing of | public headers
os | core | system calls | everything else | status.h
arena | core | blocks | messages |
tensor | upper | arrays | drivers | tensor.h
api | upper | the public classes | | *
"""
ROWS = [
    "| `src/os/` | system calls | everything else |",
    "| `src/arena/` | blocks | messages |",
    "| `src/tensor/` | arrays | drivers |",
    "| `src/api/` | the public classes |  |",
]


def design(rows: list[str]) -> str:
    return "\n".join(["<!-- layers:begin -->", "| folder | room for |", *rows, "<!-- layers:end -->", ""])


DESIGN = design(ROWS)


def run_check(root: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, TOOL, root], capture_output=True, text=True, check=False, timeout=60
    )


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small tree without a fault."""
    for name, text in {
        "src/rooms.txt": ROOMS,
        "docs/design.md": DESIGN,
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
        ("src/os/fd.h", '#include "arena/block.h"\n', "room os includes arena/block.h of the later room"),
        ("src/os/fd.h", "  # include <arena/block.h>\n", "src/os/fd.h:1: room os includes"),
        ("src/os/fd.h", '\n#include "../arena/block.h"\n', "src/os/fd.h:2: room os includes"),
        ("src/arena/block.h", '#include "forklift/tensor.h"\n', "of the later room tensor"),
        ("include/forklift/status.h", '#include "os/fd.h"\n', "a public header includes os/fd.h of src/"),
        ("include/forklift/status.h", '#include "../../src/os/fd.h"\n', "a public header includes"),
        ("include/forklift/status.h", '#include "forklift/tensor.h"\n', "of the later room tensor"),
        ("src/os/fd.h", '#include "forklift/unheard_of.h"\n', "of the later room api"),
        ("src/misc/x.cpp", "", "lies in no room of src/rooms.txt"),
        ("src/x.cpp", "", "lies in no room of src/rooms.txt"),
        ("src/os/deep/x.cpp", '#include "arena/block.h"\n', "src/os/deep/x.cpp:1: room os includes"),
        ("src/os/block.h", "", "src: block is a file of arena, os: one name, one concept"),
        ("docs/design.md", design(ROWS[1:]), "lacks this row of src/rooms.txt: | `src/os/`"),
        ("docs/design.md", design([*ROWS, "| `src/x/` | x | y |"]), "has no such row: | `src/x/`"),
        ("docs/design.md", design(ROWS[::-1]), "has another order than src/rooms.txt"),
        ("bindings/x.h", "{ nb::gil_scoped_release r; }\n", "bindings/x.h:1: gil_scoped_release: use"),
        ("bindings/x.cpp", "const nb::gil_scoped_release r;\n", "bindings/x.cpp:1: gil_scoped_release: use"),
        (
            "bindings/deep/x.h",
            "{ nb::gil_scoped_release r; }\n",
            "bindings/deep/x.h:1: gil_scoped_release: use",
        ),
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

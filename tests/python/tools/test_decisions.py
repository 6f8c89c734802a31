"""tools/decisions.py: this tree passes, each mistake is named, and the index is written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
TOOL = ROOT / "tools" / "decisions.py"
# Put together, since the check of this very file would take it for a citation.
CITED = "decisions" + "/"
FIRST = f"docs/{CITED}0001-first.md"
SECOND = f"docs/{CITED}0002-second.md"

FIRST_TEXT = """\
# 0001. First

Status: accepted, refined by [0002](0002-second.md)

Area: memory

## Context

Why.

## Decision

What.
"""
SECOND_TEXT = """\
# 0002. Second

Status: accepted, refines [0001](0001-first.md)

Area: locks

## Context

Why.

## Decision

What, see [0001](0001-first.md).

## Measured

1 µs.

## Tried and dropped

Nothing else.
"""


def run_tool(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, TOOL, *arguments, root], capture_output=True, text=True, check=False, timeout=60
    )


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small tree without a fault."""
    for name, text in {
        FIRST: FIRST_TEXT,
        SECOND: SECOND_TEXT,
        "docs/design.md": f"Locks are fair ([0002]({CITED}0002-second.md)).\n",
        "src/os/fd.h": f"// see {CITED}0001\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    written = run_tool(tmp_path)
    assert (written.returncode, written.stderr) == (0, "")
    return tmp_path


def test_this_tree_passes() -> None:
    result = run_tool(ROOT, "--check")
    assert result.returncode == 0, result.stderr


def test_a_tree_without_fault_passes(tree: Path) -> None:
    result = run_tool(tree, "--check")
    assert (result.returncode, result.stderr) == (0, "")


def test_the_index_lists_decisions_by_area(tree: Path) -> None:
    index = (tree / "docs/decisions/README.md").read_text()
    listed = index[index.index("## Memory") :]
    assert listed == (
        "## Memory\n\n- [0001](0001-first.md) First\n\n## Locks\n\n- [0002](0002-second.md) Second\n"
    )


@pytest.mark.parametrize(
    ("file", "old", "new", "complaint"),
    [
        (FIRST, "# 0001", "# 0003", f"{FIRST}: the title has the number 0003"),
        (FIRST, "Area: memory", "Area: attic", f"{FIRST}: no such area: attic"),
        (FIRST, "Area: memory\n\n", "", f"{FIRST}: does not begin with"),
        (FIRST, "Status: accepted", "Status: perhaps", f"{FIRST}: no such status: perhaps"),
        (FIRST, "## Context\n\nWhy.\n\n", "", f"{FIRST}: has no section Context"),
        (FIRST, "What.\n", "", f"{FIRST}: the section Decision is empty"),
        (
            FIRST,
            "What.\n",
            "What.\n\n## Outlook\n\nMore.\n",
            f"{FIRST}: its sections are Context, Decision, Outlook",
        ),
        (
            FIRST,
            ", refined by [0002](0002-second.md)",
            "",
            f"{SECOND}: refines 0001, whose status does not say",
        ),
        (FIRST, "refined by", "superseded by", f"{FIRST}: the status is neither or both"),
        (SECOND, "see [0001](0001-first.md)", "see [0009](0009-gone.md)", f"{SECOND}: links to [0009]"),
        (SECOND, "see [0001](0001-first.md)", "see [0002](0001-first.md)", f"{SECOND}: links to [0002]"),
        (SECOND, "# 0002. Second", "# 0002. Another", "docs/decisions/README.md: out of date"),
        ("src/os/fd.h", "0001", "0009", f"src/os/fd.h:1: cites {CITED}0009"),
        (
            "docs/design.md",
            "0002-second",
            "0002-old-name",
            f"docs/design.md:1: cites {CITED}0002-old-name.md",
        ),
        ("docs/design.md", "fair", "fair" * 7000, "docs/design.md: 280"),
    ],
)
def test_a_seeded_mistake_is_found(tree: Path, file: str, old: str, new: str, complaint: str) -> None:
    path = tree / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    result = run_tool(tree, "--check")
    assert result.returncode == 1
    assert complaint in result.stderr


@pytest.mark.parametrize(
    ("file", "complaint"),
    [
        (f"docs/{CITED}0001-again.md", f"{FIRST}: the number is that of 0001-again.md"),
        ("docs/decisions/third.md", "docs/decisions/third.md: the name is not NNNN-some-words.md"),
    ],
)
def test_a_file_too_many_is_found(tree: Path, file: str, complaint: str) -> None:
    (tree / file).write_text(FIRST_TEXT)
    result = run_tool(tree, "--check")
    assert result.returncode == 1
    assert complaint in result.stderr


@pytest.mark.parametrize("folder", ["include", "bindings", "python", "tests", "bench", "tools", "docs"])
def test_citations_are_looked_for_in_every_folder(tree: Path, folder: str) -> None:
    path = tree / folder / "deep" / "x.py"
    path.parent.mkdir(parents=True)
    path.write_text(f"\n# see {CITED}0042\n")
    result = run_tool(tree, "--check")
    assert result.returncode == 1
    assert result.stderr == f"{folder}/deep/x.py:2: cites {CITED}0042, which does not exist\n"


def test_a_faulty_tree_keeps_its_index(tree: Path) -> None:
    index = tree / "docs/decisions/README.md"
    before = index.read_text()
    (tree / FIRST).write_text(FIRST_TEXT.replace("## Decision", "## Outcome"))
    assert run_tool(tree).returncode == 1
    assert index.read_text() == before

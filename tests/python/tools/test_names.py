"""tools/check_names.py: this tree has no name that was given up, and one that comes back is found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
TOOL = ROOT / "tools" / "check_names.py"


def run_check(root: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, TOOL, root], capture_output=True, text=True, check=False, timeout=60
    )


def test_this_tree_has_none() -> None:
    result = run_check(ROOT)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    ("file", "text", "complaint"),
    [
        ("src/node/node.h", "\nclass Hub;\n", "src/node/node.h:2: Hub: say Node"),
        ("docs/semantics.md", "a `Parcel` of bytes\n", "docs/semantics.md:1: Parcel: say MessageBuilder"),
        ("python/forklift/x.py", "import forklift.invited\n", "x.py:1: forklift.invited: say forklift.child"),
        ("README.md", "forklift::need(x)\n", "README.md:1: forklift::need: say value_or_throw"),
    ],
)
def test_one_that_comes_back_is_found(tmp_path: Path, file: str, text: str, complaint: str) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    result = run_check(tmp_path)
    assert result.returncode == 1
    assert complaint in result.stderr


@pytest.mark.parametrize("file", ["docs/decisions/x.md", "CHANGELOG.md", "src/node/node.txt.orig"])
def test_history_may_tell(tmp_path: Path, file: str) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("The Hub and its Parcel, a HubFixture, seats.\n")
    assert run_check(tmp_path).returncode == 0

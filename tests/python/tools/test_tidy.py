"""tools/tidy.py: sources are read together, and each must compile alone."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest

TOOL = Path(__file__).resolve().parents[3] / "tools" / "tidy.py"


@pytest.fixture
def tidy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The tool, in a tree of its own: src/a.cpp includes what src/b.cpp uses."""
    spec = importlib.util.spec_from_file_location("tidy", TOOL)
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "tidy", tool)
    spec.loader.exec_module(tool)
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    monkeypatch.setattr(tool, "CACHE", tmp_path / "cache")
    (tmp_path / "cache").mkdir()
    source = tmp_path / "src"
    source.mkdir()
    (source / "a.cpp").write_text("#include <string>\nstd::string a() { return {}; }\n")
    (source / "b.cpp").write_text("std::string b() { return {}; }\n")
    unity = tmp_path / "build" / tool.UNITY[0] / "unity_x_0.cxx"
    unity.parent.mkdir(parents=True)
    unity.write_text(f'#include "{source / "a.cpp"}"\n#include "{source / "b.cpp"}"\n')
    entry = {
        "file": str(unity),
        "directory": str(tmp_path),
        "command": f"{shutil.which('c++')} -O3 -o {unity}.o -c {unity}",
    }
    (tmp_path / "build" / "compile_commands.json").write_text(json.dumps([entry]))
    return tool


def test_sources_are_read_together_and_weekly_alone(tidy: ModuleType, tmp_path: Path) -> None:
    (together,) = tidy.checks_of("clang-tidy", tmp_path / "build", weekly=False)
    assert together.command[0] == "clang-tidy"
    assert together.command[-1].endswith("unity_x_0.cxx")
    alone = tidy.checks_of("clang-tidy", tmp_path / "build", weekly=True)
    assert [check.name for check in alone] == ["src/a.cpp by itself", "src/b.cpp by itself"]


def test_one_that_lacks_an_include_is_found_until_it_has_it(tidy: ModuleType, tmp_path: Path) -> None:
    a, b = tidy.checks_of("clang-tidy", tmp_path / "build", weekly=True)
    assert tidy.run(a, "")[1] == ""
    assert "b.cpp" in tidy.run(b, "")[1]
    (tmp_path / "src" / "b.cpp").write_text("#include <string>\nstd::string b() { return {}; }\n")
    assert tidy.run(b, "")[1] == ""
    assert len(list((tmp_path / "cache").iterdir())) == 2


def test_a_build_of_single_sources_is_refused(tidy: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "build" / "compile_commands.json").write_text("[]")
    with pytest.raises(SystemExit, match="FORKLIFT_UNITY=ON"):
        tidy.checks_of("clang-tidy", tmp_path / "build", weekly=False)

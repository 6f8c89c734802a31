"""tools/import_order.py, and what its list does to the module."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from forklift import _core

ROOT = Path(__file__).resolve().parents[3]

LINK_MAP = """\
 .text.unlikely._Z5nevev
                0x0000000000000000       0x10 a.o
 .text          0x0000000000001000        0x0 a.o
 .text._Z1av    0x0000000000001000       0x20 a.o
                0x0000000000001000                a()
 .text._Z23a_name_of_its_own_linev
                0x0000000000001020       0x30 a.o
 .text._Z1cv    0x0000000000001050        0x0 a.o
 .rodata._Z1av  0x0000000000002000        0x8 a.o
"""

PROFILE = """\
ob=/usr/lib/libc.so.6
fn=memcpy
0x1004 0 5
ob=/there/forklift/_core.so
fn=(below main)
0x1024 0 5
0x104f 0 5
cfi=other
calls=1 0x9000 0
0x3000 0 7
"""


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("import_order", ROOT / "tools" / "import_order.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "import_order", module)
    spec.loader.exec_module(module)
    return module


def test_sections_of_a_map_have_address_size_and_name(tool: ModuleType) -> None:
    assert tool.sections(LINK_MAP.splitlines()) == [
        (0x1000, 0x20, ".text._Z1av"),
        (0x1020, 0x30, ".text._Z23a_name_of_its_own_linev"),
    ]


def test_what_ran_is_named_by_its_section(tool: ModuleType) -> None:
    ran = tool.executed(PROFILE.splitlines(), "/_core.")
    assert ran == {0x1024, 0x104F, 0x3000}
    listed = tool.sections(LINK_MAP.splitlines())
    assert tool.names_at(ran, listed) == {".text._Z23a_name_of_its_own_linev"}
    assert tool.names_at({0xFFF, 0x101F, 0x1050}, listed) == {".text._Z1av"}


def test_the_list_has_sections_of_functions_only(tool: ModuleType) -> None:
    names = tool.LIST.read_text().splitlines()
    assert names == sorted(set(names))
    assert all(re.fullmatch(r"\.text\.[A-Za-z0-9_.]+", name) for name in names)


@pytest.mark.skipif(shutil.which("readelf") is None, reason="needs readelf, of binutils")
def test_the_module_has_what_runs_in_one_place() -> None:
    linker = subprocess.run(["ld", "--version"], capture_output=True, text=True).stdout
    if not linker.startswith("GNU ld"):
        pytest.skip("another linker than GNU's, which may not insert into its own script")
    assert _core.__file__ is not None
    headers = subprocess.run(
        ["readelf", "-SW", _core.__file__], check=True, capture_output=True, text=True
    ).stdout
    sizes = dict(re.findall(r"\] (\.text\S*)\s+PROGBITS\s+[0-9a-f]+ [0-9a-f]+ ([0-9a-f]+) ", headers))
    # Much less: the list no longer fits the sources. tools/import_order.py makes it anew.
    assert 200_000 < int(sizes[".text.import"], 16) < 1_000_000 < int(sizes[".text"], 16)

"""README.md and CONTRIBUTING.md name files, functions and commands that exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
README = (ROOT / "README.md").read_text()
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]

FOLDERS = "src|include|bindings|python|tests|bench|tools|docs|examples|cmake"
PATH = re.compile(rf"`((?:{FOLDERS})/[^`\s]*)`")
CODE = re.compile(r"`([^`\n]+)`")
# `one` and `two` in `file`; `one` (`file`)
ELSEWHERE = re.compile(r"((?:`[\w:]+`(?:, | and )?)+) (?:in |\()`([^`]+/[^`]+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
NAME = re.compile(r"[A-Za-z_]\w*(?:::[A-Za-z_]\w*)*")


def named_paths(text: str) -> list[str]:
    """The paths in code style. One with a placeholder stands for itself."""
    return [path for path in PATH.findall(text) if "<" not in path and "NNNN" not in path]


def walk() -> Iterator[tuple[str, str]]:
    """The file and the function of each step of the walk."""
    section = CONTRIBUTING.split("\n## How a message travels\n")[1].split("\n## ")[0]
    for line in section.splitlines():
        if not line.startswith("| `"):
            continue
        file, functions, what = (cell.strip() for cell in line[1:-1].split("|"))
        for function in CODE.findall(functions):
            yield file.strip("`"), function
        for others, there in ELSEWHERE.findall(what):
            for function in CODE.findall(others):
                yield there, function


def says(path: str, name: str) -> bool:
    """Does the file name the function, or a member whose class it names?"""
    text = (ROOT / path).read_text()
    return all(re.search(rf"\b{part}\b", text) for part in name.split("::"))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    links = [link.split("#")[0] for link in LINK.findall(document.read_text())]
    local = {link for link in links if link and "://" not in link}
    assert {link for link in local if not (document.parent / link).exists()} == set()


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
def test_paths_exist(document: str) -> None:
    paths = named_paths((ROOT / document).read_text())
    assert [path for path in paths if not list(ROOT.glob(path.rstrip("/")))] == []


def test_the_walk_names_functions_that_are_where_it_says() -> None:
    steps = list(walk())
    assert len(steps) > 40
    assert [step for step in steps if not says(*step)] == []


def test_a_wrong_step_would_be_noticed() -> None:
    assert says("src/channel/put.cpp", "Channel::try_put")
    assert not says("src/channel/put.cpp", "Channel::try_get")


def test_the_tour_has_each_room() -> None:
    for line in (ROOT / "src" / "rooms.txt").read_text().splitlines():
        if not line.startswith("#") and "|" in line:
            room = line.split("|")[0].strip()
            planned = f"| `{room}` | Planned" in CONTRIBUTING
            assert f"| `{room}` |" in CONTRIBUTING, room
            assert planned != (ROOT / "src" / room).is_dir(), room


def test_the_tour_has_each_room_of_the_bindings() -> None:
    for folder in (ROOT / "bindings").iterdir():
        if folder.is_dir() and any(folder.glob("*.cpp")):
            assert f"| `bindings/{folder.name}` |" in CONTRIBUTING


def test_names_are_in_a_file_that_the_document_names() -> None:
    """What stands in code style and looks like a name of the sources."""
    paths = [found for path in named_paths(CONTRIBUTING) for found in ROOT.glob(path.rstrip("/"))]
    programs = [
        "Makefile",
        "CMakeLists.txt",
        "tests/cpp/CMakeLists.txt",
        "bench/CMakeLists.txt",
        "tools/lint.sh",
    ]
    texts = [path.read_text() for path in [*paths, *map(ROOT.joinpath, programs)] if path.is_file()]
    words = {word for text in texts for word in re.findall(r"\w+", text)}
    names = {name for name in CODE.findall(CONTRIBUTING) if NAME.fullmatch(name)}
    assert len(names) > 60
    folders = {room.name for room in (ROOT / "src").iterdir()} | {"device", "runtime"}
    unknown = {name for name in names - folders for part in name.split("::") if part not in words}
    # Targets that CMake makes of a list of names.
    assert {name for name in unknown if not name.startswith("example_")} == set()


def test_make_has_the_targets() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {
        target
        for text in (README, CONTRIBUTING)
        for target in re.findall(r"(?:^|`)make (?:-o core )?([a-z-]+)", text, re.MULTILINE)
    }
    assert {"demo", "test", "setup", "wheel", "lint"} <= named
    assert named <= targets


def test_the_layout_document_names_the_version_of_the_code() -> None:
    code = re.search(r"kLayoutVersion = (\d+);", (ROOT / "src/domain/layout.h").read_text())
    document = (ROOT / "docs/layout.md").read_text()
    assert code is not None
    assert re.findall(r"\*\*Layout version (\d+)\.\*\*", document) == [code[1]]
    assert re.findall(r"layout_version \| (\d+) \|", document) == [code[1]]


CPP_TEST = re.compile(r"`([A-Z]\w+)\.([A-Z]\w+)`")


def cpp_tests() -> set[tuple[str, str]]:
    """(suite, test) of all C++ tests in the source."""
    found = set()
    for path in (ROOT / "tests").glob("**/*.cpp"):
        found.update(re.findall(r"\bTEST(?:_F|_P)?\((\w+),\s*(\w+)", path.read_text()))
    return found


def test_the_comparison_with_other_libraries_names_tests_that_exist() -> None:
    named = set(CPP_TEST.findall((ROOT / "docs" / "choosing-cpp.md").read_text()))
    assert len(named) > 20
    assert named - cpp_tests() == set()

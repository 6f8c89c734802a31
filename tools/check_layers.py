"""Check that the sources keep to the rooms of src/rooms.txt.

python tools/check_layers.py [ROOT]

- A room (a folder of src/ with its subfolders) includes files of itself and of earlier rooms only.
- A public header (include/forklift) includes public headers of its own or an earlier room only, and never
  a file of src/.
- No two files of src/ have the same name, unless they are the same concept in two rooms.
- The table in docs/design.md is that of src/rooms.txt.
- No source file is longer than its folder allows.
"""

from __future__ import annotations

import ast
import collections
import dataclasses
import re
import sys
from collections.abc import Iterator
from pathlib import Path

# Names of files (without suffix) that several rooms may have: each is the same concept, and the file of the
# earlier room serves the one of the later room.
SAME_CONCEPT = {
    *(
        "audit",
        "barrier",
        "condition",
        "device",
        "dlpack",
        "domain",
        "event",
        "frozen",
        "label",
        "latch",
        "loan",
        "lock",
        "once",
        "pipe",
        "process",
    ),
    *("semaphore", "table", "tables", "tensor", "wait_any", "wait_set", "waiting"),
}

TABLE_BEGIN, TABLE_END = "<!-- layers:begin -->", "<!-- layers:end -->"


@dataclasses.dataclass(frozen=True)
class Room:
    """A line of src/rooms.txt."""

    name: str
    part: str  # "core", "upper", or "apart": a library of its own
    holds: str
    ignorant_of: str
    headers: tuple[str, ...]  # of include/forklift; "*": all headers that no other room has


def read_rooms(root: Path) -> list[Room]:
    rooms = []
    for line in (root / "src" / "rooms.txt").read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            name, part, holds, ignorant_of, headers = (field.strip() for field in line.split("|"))
            rooms.append(Room(name, part, holds, ignorant_of, tuple(headers.split())))
    return rooms


class Order:
    """The order of the rooms, and the room of each public header."""

    def __init__(self, rooms: list[Room]) -> None:
        self.rank = {room.name: at for at, room in enumerate(rooms)}
        self._of_header = {header: room.name for room in rooms for header in room.headers}
        self._others = self._of_header.pop("*", "")

    def room_of_header(self, name: str) -> str:
        return self._of_header.get(name, self._others)


# The folders in which the length of files is checked.
SOURCES = ("include", "src", "bindings", "python", "tests", "bench", "examples", "tools")
SUFFIXES = (".h", ".cpp", ".py")
LINES_WANTED = 400
LINES_MOST = 450
# In these folders no file may be longer than LINES_WANTED, and no Python function longer than FUNCTION_MOST
# (for C++ functions clang-tidy checks readability-function-size).
STRICT = ("src", "bindings", "python")
FUNCTION_MOST = 80

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^">]+)[">]', re.MULTILINE)


def includes(path: Path) -> Iterator[tuple[int, str]]:
    """The line number and the included name of each include of a file."""
    text = path.read_text(encoding="utf-8", errors="replace")
    for match in INCLUDE.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, match.group(2)


def room_of_include(name: str, file: Path, root: Path, order: Order) -> tuple[str | None, bool]:
    """The room of an included file (None: not of this project), and whether it is a public header."""
    head, _, rest = name.partition("/")
    if head == "forklift" and rest:
        return order.room_of_header(rest), True
    if head in order.rank and rest:
        return head, False
    # relative to the including file: "../arena/block.h"
    target = (file.parent / name).resolve()
    if target.is_file() and target.is_relative_to(root / "src"):
        return target.relative_to(root / "src").parts[0], False
    if target.is_file() and target.is_relative_to(root / "include" / "forklift"):
        return order.room_of_header(str(target.relative_to(root / "include" / "forklift"))), True
    return None, False


def check_file(path: Path, room: str, public: bool, root: Path, order: Order) -> Iterator[str]:
    for line, name in includes(path):
        where = f"{path.relative_to(root)}:{line}"
        other, other_is_public = room_of_include(name, path, root, order)
        if other is None:
            continue
        if public and not other_is_public:
            yield f"{where}: a public header includes {name} of src/"
        elif other not in order.rank:
            yield f"{where}: {name} lies in src/{other}, which is no room of src/rooms.txt"
        elif order.rank[other] > order.rank[room]:
            yield f"{where}: room {room} includes {name} of the later room {other}"


def check_rooms(root: Path) -> Iterator[str]:
    order = Order(read_rooms(root))
    for path in sorted((root / "include" / "forklift").glob("**/*.h")):
        name = str(path.relative_to(root / "include" / "forklift"))
        yield from check_file(path, order.room_of_header(name), True, root, order)
    stems: dict[str, set[str]] = collections.defaultdict(set)
    for path in sorted((root / "src").glob("**/*")):
        if path.suffix not in SUFFIXES:
            continue
        parts = path.relative_to(root / "src").parts
        if len(parts) < 2 or parts[0] not in order.rank:
            yield f"{path.relative_to(root)}: lies in no room of src/rooms.txt"
        else:
            stems[path.stem].add(str(path.relative_to(root / "src").parent))
            yield from check_file(path, parts[0], False, root, order)
    for stem, folders in sorted(stems.items()):
        if len(folders) > 1 and stem not in SAME_CONCEPT:
            yield f"src: {stem} is a file of {', '.join(sorted(folders))}: one name, one concept"


def table_of(rooms: list[Room]) -> list[str]:
    """The rows for src/ that docs/design.md must have."""
    return [f"| `src/{room.name}/` | {room.holds} | {room.ignorant_of} |" for room in rooms]


def check_table(root: Path) -> Iterator[str]:
    """Check that docs/design.md has the rooms in the words and in the order of src/rooms.txt."""
    text = (root / "docs" / "design.md").read_text(encoding="utf-8")
    table = text.partition(TABLE_BEGIN)[2].partition(TABLE_END)[0]
    rows = [line for line in table.splitlines() if line.startswith("| `src/")]
    wanted = table_of(read_rooms(root))
    for row in wanted:
        if row not in rows:
            yield f"docs/design.md: its table lacks this row of src/rooms.txt: {row}"
    for row in rows:
        if row not in wanted:
            yield f"docs/design.md: src/rooms.txt has no such row: {row}"
    if sorted(rows) == sorted(wanted) and rows != wanted:
        yield "docs/design.md: its table has another order than src/rooms.txt"


def check_bindings(root: Path) -> Iterator[str]:
    """Check that only bindings/core/gil.* use functions that wait for the interpreter lock (see gil.h)."""
    unsafe = re.compile(r"gil_scoped_(release|acquire)|PyGILState_Ensure|Py_BEGIN_ALLOW")
    for path in sorted((root / "bindings").glob("**/*.*")):
        text = path.read_text(encoding="utf-8")
        for found in unsafe.finditer(text if path.stem != "gil" else ""):
            number = text.count("\n", 0, found.start()) + 1
            yield f"{path.relative_to(root)}:{number}: {found[0]}: use GilRelease or WithGil of gil.h"


def check_lengths(root: Path) -> Iterator[tuple[bool, str]]:
    """(whether it is an error, the message) for each file or function that is longer than wanted."""
    for folder in SOURCES:
        most = LINES_WANTED if folder in STRICT else LINES_MOST
        for path in sorted((root / folder).glob("**/*")):
            if path.suffix not in SUFFIXES or not path.is_file():
                continue
            text = path.read_text(encoding="utf-8", errors="replace")
            name, lines = path.relative_to(root), len(text.splitlines())
            if lines > LINES_WANTED:
                yield lines > most, f"{name}: {lines} lines; at most {LINES_WANTED}, never {most}"
            if path.suffix == ".py" and folder in STRICT:
                yield from ((True, f"{name}:{words}") for words in long_functions(text))


def long_functions(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_MOST:
                yield f"{node.lineno}: {node.name} has {lines} lines; at most {FUNCTION_MOST}"


def main(arguments: list[str]) -> int:
    root = Path(arguments[0] if arguments else Path(__file__).parent.parent).resolve()
    errors = [*check_rooms(root), *check_table(root), *check_bindings(root)]
    for is_error, words in check_lengths(root):
        if is_error:
            errors.append(words)
        else:
            print(f"note: {words}")
    for error in errors:
        print(f"error: {error}", file=sys.stderr)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

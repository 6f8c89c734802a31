"""Check that the sources keep to the layers of docs/design.md.

python tools/check_layers.py [ROOT]

- A layer (a folder of src/) includes itself and earlier layers only.
- A public header (include/forklift) includes public headers of its own or an earlier layer only, and never
  a file of src/.
- No source file is longer than can be read at a sitting.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

# In the order of the table in docs/design.md: each knows those before it.
LAYERS = (
    "os",
    "sync",
    "domain",
    "arena",
    "locks",
    "channel",
    "process",
    "tensor",
    "device",
    "runtime",
)

# The layer that a public header of include/forklift belongs to: the one that implements it. A header of
# templates belongs to the last layer that it builds upon.
PUBLIC_HEADERS = {
    "status.h": "os",
    "hash.h": "os",
    "version.h": "os",
    "error.h": "os",
    "timeout.h": "os",
    "budget.h": "domain",
    "stats.h": "channel",
    "lock_ref.h": "channel",
    "board_ref.h": "channel",
    "lock.h": "channel",
    "semaphore.h": "channel",
    "condition.h": "channel",
    "event.h": "channel",
    "barrier.h": "channel",
    "init.h": "process",
    "channel_ref.h": "channel",
    "remote_error.h": "process",
    "this_process.h": "process",
    "process.h": "process",
    "process_context.h": "process",
    "dtype.h": "tensor",
    "shape.h": "tensor",
    "tensor.h": "tensor",
    "dlpack.h": "tensor",
    "plain.h": "tensor",
    "packed.h": "tensor",
    "value_base.h": "tensor",
    "value_lists.h": "tensor",
    "value.h": "tensor",
    "value_traits.h": "tensor",
    "fields.h": "tensor",
    "manager.h": "tensor",
    "queue.h": "tensor",
    "broadcast.h": "tensor",
    "latest.h": "tensor",
    "joinable_queue.h": "tensor",
    "simple_queue.h": "tensor",
    "domain.h": "tensor",
    "frozen.h": "tensor",
    "pipe.h": "tensor",
    "wait.h": "tensor",
    "sendable.h": "tensor",
    "shared_value.h": "tensor",
    "spawn.h": "tensor",
    "future.h": "tensor",
    "pool.h": "tensor",
    "pool_task.h": "tensor",
    "context.h": "tensor",
    "group.h": "tensor",
    "multiprocessing.h": "tensor",
    "forklift.h": "runtime",
}

# Where the length of files counts.
SOURCES = ("include", "src", "bindings", "python", "tests", "bench", "examples", "tools")
SUFFIXES = (".h", ".cpp", ".py")
LINES_WANTED = 400
LINES_MOST = 450

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^">]+)[">]', re.MULTILINE)


def includes(path: Path) -> Iterator[tuple[int, str]]:
    """The line and the name of each include of a file."""
    text = path.read_text(encoding="utf-8", errors="replace")
    for match in INCLUDE.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, match.group(2)


def rank(layer: str) -> int:
    return LAYERS.index(layer)


def layer_of_include(name: str, file: Path, root: Path) -> tuple[str | None, bool]:
    """The layer an included file belongs to (None: not ours), and whether it is a public header."""
    head, _, rest = name.partition("/")
    if head == "forklift" and rest:
        return PUBLIC_HEADERS.get(rest), True
    if head in LAYERS and rest:
        return head, False
    # relative to the including file: "../arena/block.h"
    target = (file.parent / name).resolve()
    if target.is_file() and target.is_relative_to(root / "src"):
        return target.relative_to(root / "src").parts[0], False
    if target.is_file() and target.is_relative_to(root / "include" / "forklift"):
        return PUBLIC_HEADERS.get(target.name), True
    return None, False


def check_file(path: Path, layer: str, public: bool, root: Path) -> Iterator[str]:
    for line, name in includes(path):
        where = f"{path.relative_to(root)}:{line}"
        other, other_is_public = layer_of_include(name, path, root)
        if other_is_public and other is None:
            yield f"{where}: {name} has no layer; add it to PUBLIC_HEADERS of tools/check_layers.py"
        elif other is None:
            continue
        elif public and not other_is_public:
            yield f"{where}: a public header includes {name} of src/"
        elif other not in LAYERS:
            yield f"{where}: {name} lies in src/{other}, which is no layer"
        elif rank(other) > rank(layer):
            yield f"{where}: layer {layer} includes {name} of the later layer {other}"


def check_layers(root: Path) -> Iterator[str]:
    for path in sorted((root / "include" / "forklift").glob("**/*.h")):
        name = str(path.relative_to(root / "include" / "forklift"))
        layer = PUBLIC_HEADERS.get(name)
        if layer is None:
            yield (
                f"{path.relative_to(root)}: has no layer; add it to PUBLIC_HEADERS of tools/check_layers.py"
            )
        else:
            yield from check_file(path, layer, True, root)
    for path in sorted((root / "src").glob("**/*")):
        if path.suffix not in SUFFIXES:
            continue
        parts = path.relative_to(root / "src").parts
        if len(parts) != 2 or parts[0] not in LAYERS:
            yield f"{path.relative_to(root)}: not directly in the folder of a layer"
        else:
            yield from check_file(path, parts[0], False, root)


def check_bindings(root: Path) -> Iterator[str]:
    """What a thread that waits for the lock of an ending interpreter must not be unwound through: gil.h."""
    unsafe = re.compile(r"gil_scoped_(release|acquire)|PyGILState_Ensure|Py_BEGIN_ALLOW")
    for path in sorted((root / "bindings").glob("*.*")):
        text = path.read_text(encoding="utf-8")
        for found in unsafe.finditer(text if path.stem != "gil" else ""):
            number = text.count("\n", 0, found.start()) + 1
            yield f"{path.relative_to(root)}:{number}: {found[0]}: use GilRelease or WithGil of gil.h"


def check_lengths(root: Path) -> Iterator[tuple[bool, str]]:
    """(whether it is an error, the words) for each file that is longer than wanted."""
    for folder in SOURCES:
        for path in sorted((root / folder).glob("**/*")):
            if path.suffix not in SUFFIXES or not path.is_file():
                continue
            lines = len(path.read_text(encoding="utf-8", errors="replace").splitlines())
            if lines > LINES_WANTED:
                name = path.relative_to(root)
                yield lines > LINES_MOST, f"{name}: {lines} lines; at most {LINES_WANTED}, never {LINES_MOST}"


def main(arguments: list[str]) -> int:
    root = Path(arguments[0] if arguments else Path(__file__).parent.parent).resolve()
    errors = [*check_layers(root), *check_bindings(root)]
    for is_error, words in check_lengths(root):
        if is_error:
            errors.append(words)
        else:
            print(f"note: {words}")
    for error in errors:
        print(error, file=sys.stderr)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

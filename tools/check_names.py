"""Check that names which were given up do not come back.

python tools/check_names.py [ROOT]

Each of these names had a meaning that only its author knew, although the field has a term for it. The check
reads code and documents, except CHANGELOG.md and docs/decisions, which tell history.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

# Whole words, each with its replacement.
GIVEN_UP = {
    "Way": "Endpoint",
    "Parcel": "MessageBuilder",
    "Draft": "MessageWriter",
    "DraftLoan": "WriterLoan",
    "SemLockCare": "SemLockLifetime",
    "bind_meeting": "bind_naming",
    "KIND_BOARD": "KIND_TOPIC",
    "Hub": "Node",
    "hub": "node",
    "Board": "Topic",
    "Boards": "Topics",
    "BoardRef": "TopicRef",
    "BoardPtr": "TopicPtr",
    "BoardCore": "TopicCore",
    "PoolBoard": "WorkerTable",
    "sync::Event": "sync::EventCount",
    "Manners": "Fairness",
    "Patience": "SpinPolicy",
    "Shelves": "Magazine",
    "Shelf": "Magazine",
    "Recycler": "ThreadCache",
    "Door": "NamedDomain",
    "DoorPtr": "NamedDomainPtr",
    "Reception": "JoinServer",
    "Guest": "Connection",
    "guests": "connections",
    "Greeting": "Handshake",
    "Says": "MessageType",
    "Crew": "WorkerFactory",
    "crew": "worker factory",
    "minder": "supervisor",
    "Minder": "Supervisor",
    "Seat": "WorkerSlot",
    "seat": "worker slot",
    "bury": "wait",
    "queue_care": "queue_lifetime",
    "lock_care": "lock_lifetime",
    "kElsewhere": "kUnsupported",
    "Dialect": "Format",
    "kLeft": "kAbandoned",
    "forklift.meeting": "forklift.objects.naming",
    "forklift.joining": "forklift.multiprocessing._start.launch",
    "forklift.invited": "forklift.child_boot",
    "forklift.installing": "forklift.patch",
    "forklift::check": "throw_if_failed",
    "forklift::need": "value_or_throw",
}

# Members, also behind a dot.
GIVEN_UP_MEMBERS = {
    "put_for": "try_put(x, wait)",
    "put_until": "try_put(x, wait)",
    "get_for": "try_get(wait)",
    "get_until": "try_get(wait)",
    "get_into_for": "try_get_into(x, wait)",
    "send_for": "try_put(x, wait)",
    "recv_for": "try_get(wait)",
    "recv_into": "get_into",
    "join_for": "try_join(wait)",
    "join_until": "try_join(wait)",
    "arrive_and_wait_for": "try_arrive_and_wait(wait)",
}

FOLDERS = ("src", "include", "bindings", "python", "tests", "bench", "examples", "docs", "tools", "cmake")
SUFFIXES = (".h", ".cpp", ".py", ".pyi", ".md", ".pml", ".cmake", ".txt", ".sh", ".toml")
# Files and folders that may have these names: history, and the test of this check.
HISTORY = ("docs/decisions", "tests/python/tools/test_names.py")

WORD = re.compile(
    r"(?<![\w.])(?:" + "|".join(re.escape(name) for name in GIVEN_UP) + r")(?!\w)"
    r"|(?<!\w)(?:" + "|".join(GIVEN_UP_MEMBERS) + r")(?!\w)"
)


def check_text(where: str, text: str) -> Iterator[str]:
    for number, line in enumerate(text.splitlines(), 1):
        for found in WORD.finditer(line):
            yield f"{where}:{number}: {found[0]}: say {(GIVEN_UP | GIVEN_UP_MEMBERS)[found[0]]}"


def check_names(root: Path) -> Iterator[str]:
    paths = [path for folder in FOLDERS for path in (root / folder).glob("**/*")]
    for path in sorted([*paths, *root.glob("*.md")]):
        where = path.relative_to(root).as_posix()
        if path.suffix not in SUFFIXES or where.startswith(HISTORY) or where == "CHANGELOG.md":
            continue
        if path.resolve() != Path(__file__).resolve():
            yield from check_text(where, path.read_text(encoding="utf-8", errors="replace"))


def main(arguments: list[str]) -> int:
    root = Path(arguments[0] if arguments else Path(__file__).parent.parent).resolve()
    errors = list(check_names(root))
    for error in errors:
        print(error, file=sys.stderr)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

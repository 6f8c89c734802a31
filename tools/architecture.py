#!/usr/bin/env python3
"""Draws docs/images/architecture.svg: the rooms of src/rooms.txt as layers over shared memory.

tools/architecture.py            writes the drawing
tools/architecture.py --check    fails if the file differs from what src/rooms.txt gives

A room without a folder in src/ is planned, and the drawing leaves it out.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "bench"))
sys.path.insert(0, str(ROOT / "tools"))

from check_layers import Room, read_rooms  # noqa: E402
from svg import Drawing  # noqa: E402

WIDTH, LEFT, STACK = 860.0, 20.0, 640.0
LAYER, GAP = 26.0, 4.0
MEMORY = LEFT + STACK + 30  # the left edge of the column for shared memory
PARTS = {
    "apart": "libraries of their own",
    "upper": "upper rooms of src/",
    "core": "core: no values, no tensors",
}
SHORT = 78  # the characters of a room's description that fit


def present(root: Path) -> list[Room]:
    return [room for room in read_rooms(root) if (root / "src" / room.name).is_dir()]


def short(room: Room) -> str:
    """The room's description, without markup and without details that do not fit."""
    words = room.holds.replace("`", "")
    for end in (": ", " (", ", with "):
        if len(words) > SHORT:
            words = words.split(end)[0]
    return words


def draw(rooms: list[Room]) -> str:
    page = Drawing(WIDTH, "Forklift's architecture", "Two faces over one C++ core over shared memory.")
    page.text(LEFT, 30, "One process", size=14, bold=True)
    page.text(MEMORY, 30, "The domain", size=14, bold=True)
    y = 44.0
    _box(page, LEFT, y, STACK / 2 - 5, "Python: forklift.multiprocessing", "python/forklift, over bindings/")
    _box(page, LEFT + STACK / 2 + 5, y, STACK / 2 - 5, "C++: libforklift", "include/forklift")
    y += 58
    core_top = y
    last = ""
    for room in reversed(rooms):
        if room.part != last:
            last = room.part
            page.text(LEFT, y + 12, PARTS[room.part], color="muted", size=11)
            y += 20
            if room.part == "core":
                core_top = y
        page.rectangle(LEFT, y, STACK, LAYER, "box", 4)
        page.rectangle(LEFT, y, 4, LAYER, "strong" if room.part == "core" else "line")
        page.text(LEFT + 14, y + 17, room.name, bold=True)
        page.text(LEFT + 110, y + 17, short(room), color="muted", size=11)
        y += LAYER + GAP
    _memory(page, core_top, y - GAP)
    page.text(LEFT, y + 16, "A layer uses the layers below it and none above.", color="muted", size=11)
    return page.render(y + 32)


def _box(page: Drawing, x: float, y: float, width: float, name: str, place: str) -> None:
    page.rectangle(x, y, width, 46, "box", 4)
    page.rectangle(x, y, width, 4, "strong", 2)
    page.text(x + width / 2, y + 22, name, bold=True, anchor="middle")
    page.text(x + width / 2, y + 38, place, color="muted", size=11, anchor="middle")


def _memory(page: Drawing, core_top: float, bottom: float) -> None:
    """Draw the right column: other processes above, the memory that all processes map below."""
    width = WIDTH - MEMORY - 20
    middle = MEMORY + width / 2
    page.rectangle(MEMORY, 44, width, core_top - 64, "box", 4)
    for line, words in enumerate(("other processes,", "in Python or C++:", "the same layers")):
        page.text(middle, 90 + 18 * line, words, color="muted", anchor="middle")
    page.rectangle(MEMORY, core_top, width, bottom - core_top, "box", 4)
    page.rectangle(MEMORY, core_top, width, 4, "strong", 2)
    page.text(middle, core_top + 26, "shared memory", bold=True, anchor="middle")
    for line, words in enumerate(
        (
            *("control segment:", "slots, locks,", "channels, topics,", "chunks of messages", ""),
            *("data segment:", "blocks: arrays", "and long messages"),
        )
    ):
        page.text(middle, core_top + 50 + 18 * line, words, color="muted", size=11, anchor="middle")
    page.line(LEFT + STACK, (core_top + bottom) / 2, MEMORY, (core_top + bottom) / 2)
    page.line(middle, core_top - 20, middle, core_top)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing")
    check = parser.parse_args().check
    path = ROOT / "docs" / "images" / "architecture.svg"
    drawn = draw(present(ROOT))
    if not check:
        path.write_text(drawn)
    elif not path.exists() or path.read_text() != drawn:
        print(f"{path} is not what src/rooms.txt gives: run tools/architecture.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

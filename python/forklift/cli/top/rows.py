"""The widget that shows a table: it makes the text of the lines that are on the screen, and of no others.

textual's DataTable keeps every cell, and forgets all its lines when one changes: with 1,000 queues that took
60 ms a look. Here a look costs what is seen (decisions/0281).
"""

from __future__ import annotations

from typing import Any, ClassVar

from rich.segment import Segment
from textual.binding import BindingType
from textual.events import Click
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.widget import Widget

from forklift.cli.top.tables import Table

__all__ = ["Rows"]

_BETWEEN = "  "  # columns
_SHIFT = 8  # characters, by a key to the left or to the right
_PAGE = 10  # rows, where the screen's height is not known


class Rows(Widget, can_focus=True):  # type: ignore[misc, call-arg]
    """A table's heading and rows, with a cursor on one of them. Keys as of lists everywhere."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"rows--heading", "rows--even", "rows--odd", "rows--cursor"}
    DEFAULT_CSS = """
    Rows { height: auto; margin-bottom: 1; background: $surface; }
    Rows > .rows--heading { background: $panel; color: $foreground; text-style: bold; }
    Rows > .rows--even { background: $surface; color: $foreground; }
    Rows > .rows--odd { background: $surface-lighten-1 60%; color: $foreground; }
    Rows > .rows--cursor { background: $primary 30%; color: $foreground; }
    Rows:focus > .rows--cursor { background: $primary; color: $text; text-style: bold; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        ("up", "move(-1)"),
        ("down", "move(1)"),
        ("pageup", "page(-1)"),
        ("pagedown", "page(1)"),
        ("home", "move(-1_000_000)"),
        ("end", "move(1_000_000)"),
        ("left", "shift(-1)"),
        ("right", "shift(1)"),
    ]

    def __init__(self, table: Table) -> None:
        super().__init__(id=table.name)
        self.table = table
        self.cursor = 0
        self._rows: list[dict[str, Any]] = []
        self._headings: list[str] = []
        self._widths: list[int] = []
        self._shifted = 0
        self._texts: dict[int, list[str]] = {}  # of the rows that were on the screen, by their numbers

    def show(self, rows: list[dict[str, Any]], headings: list[str]) -> None:
        """Show these rows from now on."""
        layout = len(rows) != len(self._rows)
        if headings != self._headings:
            self._headings = headings
            self._widths = [len(each) for each in headings]
        self._rows = rows
        self._texts = {}
        self.cursor = max(0, min(self.cursor, len(rows) - 1))
        self.refresh(layout=layout)

    def texts(self, number: int) -> list[str]:
        """The cells of a row."""
        known = self._texts.get(number)
        if known is None:
            known = self._texts[number] = self.table.texts(self._rows[number])
        return known

    def __len__(self) -> int:
        return len(self._rows)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """The lines of the heading and of all rows. (textual asks.)"""
        return len(self._rows) + 1

    def render_lines(self, crop: Region) -> list[Strip]:
        """The lines of a part of the widget. (textual asks.) A column is as wide as what was seen of it."""
        grown = False
        for line in crop.line_range:
            if 0 < line <= len(self._rows):
                for column, text in enumerate(self.texts(line - 1)):
                    if len(text) > self._widths[column]:
                        self._widths[column] = len(text)
                        grown = True
        if grown:
            self.refresh()  # the lines outside of this part, too
        lines: list[Strip] = super().render_lines(crop)
        return lines

    def render_line(self, y: int) -> Strip:
        """One line. (textual asks.)"""
        if y == 0:
            kind, cells = "heading", self._headings
        elif y <= len(self._rows):
            cells = self.texts(y - 1)
            kind = "cursor" if y - 1 == self.cursor else "odd" if y % 2 == 0 else "even"
        else:
            return Strip.blank(self.size.width)
        text = " " + _BETWEEN.join(
            cell.rjust(width) if column.right else cell.ljust(width)
            for cell, width, column in zip(cells, self._widths, self.table.columns, strict=True)
        )
        width = self.size.width
        shown = text[self._shifted : self._shifted + width].ljust(width)
        return Strip([Segment(shown, self.get_component_rich_style(f"rows--{kind}"))], width)

    # --- keys

    def action_move(self, by: int) -> None:
        """Move the cursor by so many rows."""
        before = self.cursor
        self.cursor = max(0, min(self.cursor + by, len(self._rows) - 1))
        if self.cursor == before:
            return
        self.refresh(*(Region(0, number + 1, self.size.width, 1) for number in (before, self.cursor)))
        first = self.cursor == 0  # with the heading above it
        line = Region(0, self.virtual_region.y + (0 if first else self.cursor + 1), self.size.width, 1)
        parent: Any = self.parent
        parent.scroll_to_region(line, animate=False)

    def action_page(self, by: int) -> None:
        """Move the cursor by what the screen shows."""
        parent: Any = self.parent
        self.action_move(by * max(1, (parent.size.height or _PAGE) - 2))

    def action_shift(self, by: int) -> None:
        """Show what is beyond the left or right edge."""
        longest = sum(self._widths) + len(_BETWEEN) * len(self._widths) + 1
        most = max(0, longest - self.size.width + _SHIFT - 1) // _SHIFT * _SHIFT
        self._shifted = max(0, min(self._shifted + by * _SHIFT, most))
        self.refresh()

    def on_click(self, event: Click) -> None:
        self.action_move(event.y - 1 - self.cursor)

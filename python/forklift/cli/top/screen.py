"""The screen of ``forklift top``: tables that are sorted, filtered and looked at again, by textual."""

from __future__ import annotations

from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.widgets import Footer, Input, Static

from forklift.cli.top.rows import Rows
from forklift.cli.top.sampling import Sample, Sampler
from forklift.cli.top.tables import TABLES, Table, arena_line

__all__ = ["Screen"]

_MOST_ROWS = 200  # of a table: a filter finds the others


class Screen(App[None]):  # type: ignore[misc]
    """The program's numbers, taken anew again and again. Keys as in htop: F4 filters, F6 sorts, F10 ends."""

    AUTO_FOCUS = "#processes"
    CSS = "#arena { height: auto; padding: 0 1; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        ("slash", "filter", "Filter"),
        ("f4", "filter", "Filter"),
        ("greater_than_sign", "sort", "Sort by next"),
        ("f6", "sort", "Sort by next"),
        ("I", "invert", "Invert"),
        ("tab", "app.focus_next", "Next table"),
        ("q", "quit", "Quit"),
        ("f10", "quit", "Quit"),
    ]

    def __init__(self, sampler: Sampler, seconds: float, pattern: str) -> None:
        super().__init__()
        self._sampler = sampler
        self._seconds = seconds
        self._pattern = pattern
        self._sort = {table.name: table.sort for table in TABLES}
        self._rising = {table.name: False for table in TABLES}
        self._samples: list[Sample] = []
        self._arena_size = 0

    def compose(self) -> ComposeResult:
        yield Static(id="arena")
        yield Input(self._pattern, placeholder="only rows with this text", id="filter")
        with VerticalScroll():
            for table in TABLES:
                yield Rows(table)
        yield Footer()

    def on_mount(self) -> None:
        self.title = "forklift top"
        self.query_one("#filter", Input).display = bool(self._pattern)
        self._look()
        self.set_interval(self._seconds, self._look)

    def _look(self) -> None:
        try:
            self._samples = self._sampler.look()
        except (ValueError, RuntimeError, OSError) as error:
            self.query_one("#arena", Static).update(str(error))
            self._arena_size = 0
            return
        self._show()

    def _show(self) -> None:
        # A line as long as the one before leaves the screen's layout as it is.
        arena = "\n".join(map(arena_line, self._samples))
        self.query_one("#arena", Static).update(arena, layout=len(arena) != self._arena_size)
        self._arena_size = len(arena)
        for table in TABLES:
            self._fill(table, self.query_one(f"#{table.name}", Rows))

    def _fill(self, table: Table, shown: Rows) -> None:
        name = table.name
        rows = [
            row
            for sample in self._samples
            for row in table.rows(sample, self._pattern, self._sort[name], self._rising[name])
        ]
        shown.display = bool(rows)
        mark = "▲" if self._rising[name] else "▼"
        headings = [
            column.heading + (mark if number == self._sort[name] else "")
            for number, column in enumerate(table.columns)
        ]
        shown.show(rows[:_MOST_ROWS], headings)

    def _table(self) -> str:
        focused = self.focused
        return focused.id if isinstance(focused, Rows) and focused.id else TABLES[0].name

    def action_sort(self) -> None:
        """Sort the table that has the focus by its next column."""
        name = self._table()
        columns = next(table for table in TABLES if table.name == name).columns
        self._sort[name] = (self._sort[name] + 1) % len(columns)
        self._show()

    def action_invert(self) -> None:
        """Turn the order of the table that has the focus."""
        name = self._table()
        self._rising[name] = not self._rising[name]
        self._show()

    def action_filter(self) -> None:
        """Ask for the text that rows must have."""
        asked = self.query_one("#filter", Input)
        asked.display = True
        asked.focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self._pattern = event.value
        event.input.display = bool(event.value)
        self.query_one(f"#{TABLES[0].name}", Rows).focus()
        self._show()

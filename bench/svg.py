"""Drawings as SVG text: the same input gives the same bytes, so that a committed drawing can be checked.

A drawing has its own background and colours for light and dark pages, chosen by the reader's system.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

LIGHT = {
    "page": "#ffffff",
    "text": "#1f2328",
    "muted": "#59636e",
    "line": "#d1d9e0",
    "box": "#f6f8fa",
    "strong": "#2f6f9f",
    "weak": "#b3541e",
    "second": "#b3541e",
    "third": "#6b7f2a",
    "fourth": "#8a4f9e",
    "fifth": "#8c959f",
}
DARK = {
    "page": "#0d1117",
    "text": "#e6edf3",
    "muted": "#9198a1",
    "line": "#3d444d",
    "box": "#151b23",
    "strong": "#4a97c9",
    "weak": "#e0824f",
    "second": "#e0824f",
    "third": "#a3b857",
    "fourth": "#c28ad6",
    "fifth": "#7d8590",
}

# The colors in which curves are drawn.
CURVES = ("strong", "second", "third", "fourth", "fifth")
# More of them, for drawings with many curves, on light and on dark pages.
MORE_CURVES = {
    "sixth": ("#1b7c83", "#39c5cf"),
    "seventh": ("#bf3989", "#f778ba"),
    "eighth": ("#9a6700", "#d29922"),
}


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _rectangle(x: float, y: float, width: float, height: float, color: str, radius: float) -> str:
    place = f'x="{_number(x)}" y="{_number(y)}" width="{_number(width)}" height="{_number(height)}"'
    corner = f' rx="{_number(radius)}"' if radius else ""
    return f'<rect class="{color}" {place}{corner}/>'


class Drawing:
    """Shapes on a page of a given width. `y` grows downwards."""

    def __init__(self, width: float, title: str, description: str) -> None:
        self._width = width
        self._title = title
        self._description = description
        self._shapes: list[str] = []
        self._more: list[str] = []  # colours that only this drawing needs

    def rectangle(
        self, x: float, y: float, width: float, height: float, color: str, radius: float = 0
    ) -> None:
        self._shapes.append(_rectangle(x, y, width, height, color, radius))

    def line(self, x1: float, y1: float, x2: float, y2: float) -> None:
        ends = f'x1="{_number(x1)}" y1="{_number(y1)}" x2="{_number(x2)}" y2="{_number(y2)}"'
        self._shapes.append(f'<line class="stroke" {ends}/>')

    def curve(self, points: Sequence[tuple[float, float]], color: str, width: float = 2) -> None:
        """Lines from point to point, and a dot at each."""
        if color in MORE_CURVES and color not in self._more:
            self._more.append(color)
        path = " ".join(f"{_number(x)},{_number(y)}" for x, y in points)
        self._shapes.append(
            f'<polyline class="curve-{color}" points="{path}" stroke-width="{_number(width)}"/>'
        )
        for x, y in points:
            self._shapes.append(
                f'<circle class="{color}" cx="{_number(x)}" cy="{_number(y)}" r="{_number(width + 1)}"/>'
            )

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        color: str = "text",
        size: float = 12,
        bold: bool = False,
        anchor: str = "start",
    ) -> None:
        style = f'font-size="{_number(size)}"' + (' font-weight="600"' if bold else "")
        style += "" if anchor == "start" else f' text-anchor="{anchor}"'
        place = f'x="{_number(x)}" y="{_number(y)}"'
        self._shapes.append(f'<text class="{color}" {place} {style}>{escape(words)}</text>')

    def render(self, height: float) -> str:
        size = f"{_number(self._width)} {_number(height)}"
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" role="img"'
                f' width="{_number(self._width)}" height="{_number(height)}"'
                ' font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif">',
                f"<title>{escape(self._title)}</title>",
                f"<desc>{escape(self._description)}</desc>",
                f"<style>{self._styles(LIGHT, 0)} "
                f"@media (prefers-color-scheme: dark) {{ {self._styles(DARK, 1)} }}</style>",
                _rectangle(0, 0, self._width, height, "page", 8),
                *self._shapes,
                "</svg>",
                "",
            ]
        )

    def _styles(self, colors: dict[str, str], page: int) -> str:
        return _style(colors | {name: MORE_CURVES[name][page] for name in self._more}, self._more)


def _style(colors: dict[str, str], more: Sequence[str]) -> str:
    fills = [f".{name} {{ fill: {color}; }}" for name, color in colors.items()]
    curves = [f".curve-{name} {{ stroke: {colors[name]}; fill: none; }}" for name in (*CURVES, *more)]
    return " ".join([*fills, *curves, f".stroke {{ stroke: {colors['line']}; stroke-width: 1; }}"])

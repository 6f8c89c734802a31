"""Drawings as SVG text: the same input gives the same bytes, so that a committed drawing can be checked.

A drawing has its own background and colours for light and dark pages, chosen by the reader's system.
"""

from __future__ import annotations

from html import escape

LIGHT = {
    "page": "#ffffff",
    "text": "#1f2328",
    "muted": "#59636e",
    "line": "#d1d9e0",
    "box": "#f6f8fa",
    "strong": "#2f6f9f",
    "weak": "#b3541e",
}
DARK = {
    "page": "#0d1117",
    "text": "#e6edf3",
    "muted": "#9198a1",
    "line": "#3d444d",
    "box": "#151b23",
    "strong": "#4a97c9",
    "weak": "#e0824f",
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

    def rectangle(
        self, x: float, y: float, width: float, height: float, color: str, radius: float = 0
    ) -> None:
        self._shapes.append(_rectangle(x, y, width, height, color, radius))

    def line(self, x1: float, y1: float, x2: float, y2: float) -> None:
        ends = f'x1="{_number(x1)}" y1="{_number(y1)}" x2="{_number(x2)}" y2="{_number(y2)}"'
        self._shapes.append(f'<line class="stroke" {ends}/>')

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
                f"<style>{_style(LIGHT)} @media (prefers-color-scheme: dark) {{ {_style(DARK)} }}</style>",
                _rectangle(0, 0, self._width, height, "page", 8),
                *self._shapes,
                "</svg>",
                "",
            ]
        )


def _style(colors: dict[str, str]) -> str:
    fills = [f".{name} {{ fill: {color}; }}" for name, color in colors.items()]
    return " ".join([*fills, f".stroke {{ stroke: {colors['line']}; stroke-width: 1; }}"])

"""What an examination finds, and how it is shown."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["LEVELS", "Finding", "good", "note", "table", "trouble", "warning"]

# "good": as it should be. "note": good to know. "warning": works, but worse than it could.
# "trouble": does not work.
LEVELS = ("good", "note", "warning", "trouble")
_MARKS = {"good": "ok", "note": "note", "warning": "WARNING", "trouble": "TROUBLE"}


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    area         what it belongs to: "kernel", "limits", "memory", "container", "python", "works", "speed"
    name         what was looked at, in a word or two
    level        one of LEVELS
    found        what is the case
    consequence  what follows for programs; empty: nothing
    remedy       what to do, if something can be done
    value        the figure in `found`, if it is one (bytes, seconds, bytes a second)
    """

    area: str
    name: str
    level: str
    found: str
    consequence: str = ""
    remedy: str = ""
    value: float | None = None

    def as_json(self) -> dict[str, Any]:
        """Its parts by their names."""
        return asdict(self)


def good(area: str, name: str, found: str, value: float | None = None) -> Finding:
    """Make a finding without a consequence."""
    return Finding(area, name, "good", found, value=value)


def note(area: str, name: str, found: str, consequence: str, remedy: str = "") -> Finding:
    """Make a finding that is good to know."""
    return Finding(area, name, "note", found, consequence, remedy)


def warning(area: str, name: str, found: str, consequence: str, remedy: str) -> Finding:
    """Make a finding that makes programs worse."""
    return Finding(area, name, "warning", found, consequence, remedy)


def trouble(area: str, name: str, found: str, consequence: str, remedy: str) -> Finding:
    """Make a finding with which programs do not work."""
    return Finding(area, name, "trouble", found, consequence, remedy)


def table(findings: list[Finding], width: int) -> str:
    """The findings as text, in lines of at most `width` columns where words allow it."""
    import textwrap

    lines: list[str] = []
    area = ""
    names = max((len(each.name) for each in findings), default=0)
    for each in findings:
        if each.area != area:
            lines += ["", each.area] if lines else [each.area]
            area = each.area
        head = f"  {_MARKS[each.level]:<7} {each.name:<{names}}  "
        indent = " " * (len(head) if len(head) + 24 <= width else 10)
        words = textwrap.wrap(each.found, max(width - len(indent), 20)) or [""]
        if len(indent) == len(head):
            lines.append(head + words[0])
            words = words[1:]
        else:
            lines.append(head.rstrip())
        lines += [indent + line for line in words]
        for text in (each.consequence, each.remedy and f"-> {each.remedy}"):
            lines += [indent + line for line in textwrap.wrap(text, max(width - len(indent), 20))]
    return "\n".join(lines)

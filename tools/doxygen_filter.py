"""Turn the comments of a public header into Doxygen's form: python tools/doxygen_filter.py HEADER

The headers have plain comments, since people read them as they are. The place of a comment says what it
describes (decisions/0087):

- the first comment of a file describes the file; its first sentence also describes a class that it names and
  that has no comment of its own;
- a comment behind a declaration describes that declaration;
- a comment on lines of its own describes the declarations that follow it without an empty line between, one
  or several (mostly overloads).
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

_ALONE = re.compile(r"^\s*// ?(.*)$")
_CLASS = re.compile(r"^(?:class|struct)(?: \[\[nodiscard\]\])? (\w+)(?: final)?(?: : .*)?(?: \{)?$")
_BEHIND = re.compile(r"^(.*\S)\s+// (.*)$")


def _words(text: str) -> str:
    """The text with those characters escaped that Doxygen would take for a command, a tag or a link."""
    return re.sub(r"([@\\<>#&%])", r"\\\1", text)


def _shown(text: str, indent: int) -> str:
    # A line that is indented by two columns more is an example; Markdown wants four more columns.
    example = text.startswith("  ")
    return " " * indent + "/// " + ("    " + text if example else _words(text))


class _Filter:
    def __init__(self, headline: str) -> None:
        self.headline = headline
        self.lines: list[str] = []
        self.comment: list[str] = []  # describes the declarations that follow
        self.indent = 0
        self.complete = True  # the lines so far end with a complete declaration
        self.reading = False  # the last line was a line of a comment

    def line(self, line: str) -> None:
        indent = len(line) - len(line.lstrip())
        alone = _ALONE.match(line)
        if alone:
            if not self.reading:
                self.comment, self.indent = [], indent
            self.reading = True
            if not alone[1].startswith("---"):
                self.comment.append(alone[1])
            return
        self.reading = False
        behind = _BEHIND.match(line)
        code = behind[1] if behind else line.rstrip()
        if not code.strip() or indent < self.indent or code.strip() in ("public:", "private:"):
            self.comment = []
        elif self.complete and indent == self.indent and not code.strip().startswith(("}", "#")):
            self.lines += [_shown(text, indent) for text in self.comment]
        named = _CLASS.match(code)
        if named and not self.comment and named[1] in re.findall(r"\w+", self.headline):
            # Insert it above the template's parameters.
            at = len(self.lines) - (1 if self.lines[-1].startswith("template") else 0)
            self.lines.insert(at, _shown(self.headline, 0))
        self.complete = not code.strip() or code.endswith((";", "}", "{", ",", ":")) or code.startswith("#")
        if behind and not code.strip().startswith(("}", "#", "namespace")):
            self.lines.append(f"{code}  ///< {_words(behind[2])}")
        else:
            self.lines.append(code)


# What people do not write and the reference does not show: the release's namespace (decisions/0238),
# annotations for Clang's analysis where they are used, and hashes of handles.
_LEFT_OUT = (
    re.compile(r"::inline abi_\w+"),
    re.compile(r"^(?!#)(.*?) FORKLIFT_\w+(?:\([^()]*\))?", re.MULTILINE),
    re.compile(r"^template <[^\n]*>\nstruct std::hash<.*\{\};$", re.MULTILINE),
)


def _plain(text: str) -> str:
    release, annotation, hashes = _LEFT_OUT
    return hashes.sub("", annotation.sub(r"\1", release.sub("", text)))


def filtered(text: str) -> str:
    lines = _plain(text).splitlines()
    about = 0
    while about < len(lines) and _ALONE.match(lines[about]):
        about += 1
    head = [match[1] for line in lines[:about] if (match := _ALONE.match(line))]
    shown = _Filter(re.split(r"(?<=\.)(?:\s|$)|\n\n", "\n".join(head))[0].replace("\n", " "))
    shown.lines = ["/// \\file"] + [_shown(text, 0) for text in head]
    for line in lines[about:]:
        shown.line(line)
    return "\n".join(shown.lines)


if __name__ == "__main__":
    print(filtered(Path(sys.argv[1]).read_text()))

"""The result of an examination: findings, and the table of them."""

from __future__ import annotations

import textwrap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["VERDICTS", "Finding", "ForkReport"]

# From harmless to certain trouble.
VERDICTS = ("safe", "safe if idle", "may hang", "will hang")


class Finding:
    """What is known about one library, kind of thread or lock at a fork.

    library    its name
    version    of the library; empty if unknown
    state      "loaded" (it has no threads), "idle" or "busy"
    threads    the names of its threads
    verdict    "safe", "safe if idle" (if no call of it is in flight), "may hang" or "will hang"
    evidence   on what the verdict rests
    reference  the upstream issue or document
    remedy     what helps; it begins with "done" if Forklift does it at the fork

    ValueError for another verdict.
    """

    # Not a dataclass: `dataclasses` takes longer to import than all that a first fork needs besides.
    __slots__ = (
        "evidence",
        "library",
        "reference",
        "remedy",
        "state",
        "threads",
        "verdict",
        "version",
    )

    def __init__(
        self,
        library: str,
        version: str = "",
        state: str = "loaded",
        threads: Iterable[str] = (),
        verdict: str = "may hang",
        evidence: str = "",
        reference: str = "",
        remedy: str = "",
    ) -> None:
        if verdict not in VERDICTS:
            raise ValueError(f"a verdict is one of {', '.join(VERDICTS)}; not {verdict!r}")
        self.library = library
        self.version = version
        self.state = state
        self.threads = tuple(threads)
        self.verdict = verdict
        self.evidence = evidence
        self.reference = reference
        self.remedy = remedy

    def __repr__(self) -> str:
        return f"<Finding {self.name}: {self.verdict}>"

    @property
    def name(self) -> str:
        """The library with its version."""
        return f"{self.library} {self.version}".strip()

    def in_words(self) -> str:
        """One sentence for each part that there is."""
        words = f"{self.name} {self.verdict} in a forked child: {self.evidence}"
        if self.reference:
            words += f" ({self.reference})"
        return words + (f". Remedy: {self.remedy}" if self.remedy else "")


class ForkReport:
    """The findings of one examination, worst first; ``str()`` makes a table of them."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.findings: list[Finding] = sorted(
            findings, key=lambda each: (-VERDICTS.index(each.verdict), each.library)
        )

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    @property
    def verdict(self) -> str:
        """The worst of the findings' verdicts; "safe" if there are none."""
        return self.findings[0].verdict if self.findings else "safe"

    def __str__(self) -> str:
        if not self.findings:
            return "forklift: a fork now meets nothing: this process has one thread"
        rows = [("library", "state", "threads", "verdict")]
        rows += [(each.name, each.state, str(len(each.threads)), each.verdict) for each in self.findings]
        widths = [max(len(row[at]) for row in rows) for at in range(4)]
        lines = [f"forklift: a fork now: {self.verdict}"]
        for at, row in enumerate(rows):
            lines.append(
                "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            )
            if at > 0:
                lines += _details(self.findings[at - 1])
        return "\n".join(lines)


def _details(finding: Finding) -> Iterator[str]:
    evidence = finding.evidence + (f" ({finding.reference})" if finding.reference else "")
    for title, text in (("evidence", evidence), ("remedy", finding.remedy)):
        if text:
            yield from textwrap.wrap(
                f"{title}: {text}", 100, initial_indent="      ", subsequent_indent=" " * 8
            )

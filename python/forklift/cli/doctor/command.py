"""The command: what it takes, what it prints, how it ends."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator

from forklift.cli.doctor import installation, machine
from forklift.cli.doctor.finding import Finding, table

__all__ = ["main"]

_USAGE = "usage: forklift doctor [--json] [--quick] [--import MODULE ...]"
_HELP = f"""{_USAGE}

Examines the machine and the installation: the kernel, limits, memory, containers, Python and the
packages, whether messages travel by each start method, what a fork meets after an import, and how fast the
machine is. Each finding says what follows and what to do.

  --json            the findings as JSON
  --quick           no programs are run and nothing is measured
  --import MODULE   what a fork would meet after this import, too (numpy and torch are tried where installed)

Exit code: 0 where everything works, 1 where something does not."""


def main(arguments: list[str]) -> int:
    """Run the command. Returns its exit code."""
    as_json = quick = False
    modules = [name for name in ("numpy", "torch") if importlib.util.find_spec(name) is not None]
    rest = list(arguments)
    while rest:
        option = rest.pop(0)
        if option in ("-h", "--help"):
            print(_HELP)
            return 0
        if option == "--json":
            as_json = True
        elif option == "--quick":
            quick = True
        elif option == "--import" and rest:
            modules.append(rest.pop(0))
        else:
            print(f"forklift doctor: unknown option {option!r}\n{_USAGE}", file=sys.stderr)
            return 2
    findings = list(_examine(quick, modules))
    try:
        _show(findings, as_json)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever reads has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1 if any(each.level == "trouble" for each in findings) else 0


def _show(findings: list[Finding], as_json: bool) -> None:
    if as_json:
        print(json.dumps([each.as_json() for each in findings], indent=1))
    else:
        print(table(findings, min(shutil.get_terminal_size((100, 24)).columns, 120)))
        print(f"\n{_summary(findings)}")


def _examine(quick: bool, modules: list[str]) -> Iterator[Finding]:
    parts: list[Callable[[], Iterator[Finding]]] = [
        machine.kernel,
        machine.limits,
        machine.memory,
        machine.container,
    ]
    if not quick:
        from forklift.cli.doctor.speed import speed

        parts += [
            installation.packages,
            installation.works,
            lambda: installation.forks(modules),
            speed,
        ]
    for part in parts:
        yield from _guarded(part)


def _guarded(part: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    """The findings of a part. Its own failure is a finding, and the other parts follow."""
    try:
        yield from part()
    except Exception as error:
        name = getattr(part, "__name__", "part")
        what = f"{type(error).__name__}: {error}"
        yield Finding("doctor", name, "warning", what, "this part was not examined to its end", "report this")


def _summary(findings: list[Finding]) -> str:
    counts = {
        level: sum(each.level == level for each in findings) for level in ("trouble", "warning", "note")
    }
    if counts["trouble"]:
        return f"{counts['trouble']} of these keep Forklift from working, {counts['warning']} make it worse."
    if counts["warning"]:
        return f"Everything works; {counts['warning']} of these make it worse than it could be."
    return "Everything works."

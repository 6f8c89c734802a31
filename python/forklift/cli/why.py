"""``forklift why``: says what the processes of a program wait for, and why it stands still.

    forklift why                 # every program of this user that uses Forklift
    forklift why 4711            # the program that this process belongs to
    forklift why camera          # the program that serves this name
    forklift why 4711 --watch    # again every second, until it is interrupted
    forklift why 4711 --json

The first line names the cause. Exit code: 0 where nothing is stuck, 3 where something is, so that a
supervisor can ask; 1 where the process cannot be looked at, 2 for a wrong command. See forklift.diagnosis for
what is known and how.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from forklift.cli.programs import find_programs, server_of
from forklift.diagnosis import Diagnosis, why

_USAGE = "usage: forklift why [PID | NAME] [--watch] [--json]"
_STUCK = 3
_SECONDS = 1.0


def main(arguments: list[str]) -> int:
    """Run the command. Returns its exit code."""
    options = {each for each in arguments if each.startswith("-")}
    names = [each for each in arguments if not each.startswith("-")]
    if options & {"-h", "--help"}:
        print(__doc__)
        return 0
    if options - {"--watch", "--json"} or len(names) > 1:
        print(_USAGE, file=sys.stderr)
        return 2
    try:
        if "--watch" not in options:
            return _look_once(names, "--json" in options)
        return _watch(names, "--json" in options)
    except BrokenPipeError:  # whoever reads has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (OSError, ValueError, RuntimeError) as error:
        print(f"forklift why: {error}", file=sys.stderr)
        return 1


def _look_once(names: list[str], as_json: bool) -> int:
    found = dict(_diagnoses(names))
    print(_as_json(found) if as_json else _as_text(found))
    return _STUCK if any(each.stuck for each in found.values()) else 0


def _watch(names: list[str], as_json: bool) -> int:
    """Print what there is whenever the causes, or the waits but for their times, have changed."""
    before: Any = None
    stuck = False
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            found = dict(_diagnoses(names))
            stuck = any(each.stuck for each in found.values())
            now = [[(wait.who, wait.what, wait.stuck) for wait in each.waits] for each in found.values()]
            if now != before:
                print(
                    _as_json(found) if as_json else f"{time.strftime('%H:%M:%S')} {_as_text(found)}",
                    flush=True,
                )
            before = now
            time.sleep(_SECONDS)
    return _STUCK if stuck else 0


def _diagnoses(names: list[str]) -> Iterator[tuple[int, Diagnosis]]:
    """Each program that is meant, by one of its processes."""
    if not names:
        for pid in find_programs():
            try:
                yield pid, why(pid)
            except ValueError:
                pass  # it has just ended
            except (OSError, RuntimeError) as error:  # another version's
                print(f"forklift why: {error}", file=sys.stderr)
        return
    pid = int(names[0]) if names[0].isdigit() else server_of(names[0])
    yield pid, why(pid)


def _as_text(found: dict[int, Diagnosis]) -> str:
    if not found:
        return "No program of this user uses Forklift now."
    stuck_first = sorted(found.items(), key=lambda item: not item[1].stuck)
    return "\n\n".join(_resolved(pid, str(each)) for pid, each in stuck_first)


def _as_json(found: dict[int, Diagnosis]) -> str:
    def plain(diagnosis: Diagnosis) -> dict[str, Any]:
        as_dict = asdict(diagnosis) | {"stuck": diagnosis.stuck}
        for wait in as_dict["waits"]:
            wait["seconds_left"] = None if math.isinf(wait["seconds_left"]) else wait["seconds_left"]
        return as_dict

    return json.dumps([{"asked": pid} | plain(each) for pid, each in found.items()], indent=2)


_FRAME = re.compile(r"(?P<file>[\w.+-]+)\+0x(?P<offset>[0-9a-f]+)")


def _resolved(pid: int, text: str) -> str:
    """The text with C++ frames as function and line, where addr2line and the debug information are there."""
    if shutil.which("addr2line") is None or not _FRAME.search(text):
        return text
    files = _mapped_files(pid)

    def resolve(match: re.Match[str]) -> str:
        path = files.get(match["file"])
        if path is None:
            return match[0]
        command = ["addr2line", "-Cfpse", path, "0x" + match["offset"]]
        answer = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
        return match[0] if not answer or answer.startswith("??") else answer.replace(" at ", " (") + ")"

    return _FRAME.sub(resolve, text)


def _mapped_files(pid: int) -> dict[str, str]:
    files: dict[str, str] = {}
    with contextlib.suppress(OSError), open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
        for line in maps:
            path = line.rstrip("\n").partition("/")[2]
            if path:
                files.setdefault(path.rpartition("/")[2], "/" + path)
    return files

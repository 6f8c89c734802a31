"""Runs the programs of the tests of ``why``, ``top`` and the event log."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import forklift
import support

FOLDER = Path(__file__).parent / "diagnosis"


@contextlib.contextmanager
def running(name: str, *arguments: str, **environment: str) -> Iterator[Any]:
    """A program of the folder, in a session of its own; all its processes are killed at the end."""
    program = subprocess.Popen(
        [sys.executable, str(FOLDER / name), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | environment,
    )
    try:
        yield program
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGKILL)
        program.communicate()


def until_stuck(program: Any) -> Any:
    """What ``why`` says once it finds the program stuck."""

    def stuck() -> Any:
        assert program.poll() is None, "the program has ended"
        with contextlib.suppress(ValueError):  # it shares nothing yet
            found = forklift.why(program.pid)
            return found if found.stuck else None

    return support.until(stuck, "why to find the program stuck")

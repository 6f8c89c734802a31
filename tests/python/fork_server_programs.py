"""Programs that are written to a folder and run, for the tests of the fork server."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

# A module that notes each of its imports, with the process.
MARKER = """
import os, pathlib
PID = os.getpid()
with open(pathlib.Path(os.environ["NOTES"]), "a") as file:
    file.write(f"{PID}\\n")
def imported_by():
    '''Whether the module comes from the server, and whether that is this process's parent.'''
    return PID == os.getppid()
def say(queue=None):
    answer = (imported_by(), os.getpid())
    print(answer[0], flush=True) if queue is None else queue.put(answer)
"""
MAIN = """
import forklift.multiprocessing as mp
import marker
if __name__ == "__main__":
    context = mp.get_context("forkserver")
    for _ in range(2):
        child = context.Process(target=marker.say)
        child.start()
        child.join()
        assert child.exitcode == 0
"""

NAMED = """
import sys
import forklift.multiprocessing as mp
import marker

def look():
    print(marker.imported_by(), "other" in sys.modules, flush=True)

if __name__ == "__main__":
    context = mp.get_context("forkserver")
    context.set_forkserver_preload({names})
    for _ in range(2):
        child = context.Process(target=look)
        child.start()
        child.join()
"""


class Program:
    """Files in a folder, and how they are run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.notes = folder / "notes"
        self.write("marker", MARKER)

    def write(self, module: str, source: str) -> Path:
        path = self.folder / f"{module}.py"
        path.write_text(textwrap.dedent(source))
        return path

    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "NOTES": str(self.notes),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONUNBUFFERED": "",
        }

    def run(self, *arguments: str | Path, stdin: str = "", code: int = 0) -> tuple[list[str], str]:
        """The lines of stdout, and stderr."""
        done = subprocess.run(
            [sys.executable, "-X", "faulthandler", *map(str, arguments)],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=90,
            cwd=self.folder,
            env=self.environment(),
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout.splitlines(), done.stderr

    def main(self, source: str, *options: str, code: int = 0) -> tuple[list[str], str]:
        return self.run(*options, self.write("program", source), code=code)

    def imports(self) -> int:
        return len(self.notes.read_text().splitlines())


def warnings_in(stderr: str) -> list[str]:
    return re.findall(r"ForkServerWarning: forkserver: (.*)", stderr)


def is_running(pid: int) -> bool:
    """A zombie that nobody has asked for yet runs no more."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False

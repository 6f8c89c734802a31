"""Two environments of one interpreter: in one, every Python that starts has `multiprocessing` replaced."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
BORROW = "forklift_borrow"


@dataclasses.dataclass
class Environment:
    """A virtual environment, and where its processes leave their files."""

    python: Path
    scratch: Path
    control: bool

    def command(self, suite: str) -> list[str]:
        command = [str(self.python), str(HERE / "worker.py"), suite]
        return [*command, "--control"] if self.control else command

    def version(self) -> str:
        """As python3.11."""
        return next((self.python.parent.parent / "lib").glob("python3.*")).name

    def variables(self) -> dict[str, str]:
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "FORKLIFT"))
        }
        return kept | {"TMPDIR": str(self.scratch), "PYTHONFAULTHANDLER": "1"}

    def cases(self, suite: str) -> dict[str, list[str]]:
        """{"module.Class": ["test_a", ...]}"""
        done = subprocess.run(
            [*self.command(suite), "--list"], env=self.variables(), cwd=self.scratch, stdout=subprocess.PIPE
        )
        if done.returncode != 0:
            sys.exit(f"{self.python}: the suite {suite!r} cannot be loaded")
        found: dict[str, list[str]] = json.loads(done.stdout)
        return found


def _ask(python: str, question: str) -> str:
    done = subprocess.run([python, "-c", question], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{python} cannot run: {question}")
    return done.stdout.strip()


def number(version: str) -> tuple[int, ...]:
    """Of "python3.11", to be compared."""
    return tuple(int(part) for part in version.removeprefix("python").split("."))


def has_tests(python: str) -> bool:
    """Some distributions install Python without its tests."""
    question = "import importlib.util as u; print(u.find_spec('test._test_multiprocessing') is not None)"
    return _ask(python, question) == "True"


def _borrowed(python: str) -> Path | None:
    """Some builds lack test_concurrent_futures: then that of a neighbouring version, if it has one."""
    base = Path(_ask(python, "import sys; print(sys.base_prefix)"))
    version = _ask(python, "import sys; print('%d.%d' % sys.version_info[:2])")
    if any((base / "lib" / f"python{version}" / "test").glob("test_concurrent_futures*")):
        return None
    minor = int(version.split(".")[1])
    for other in sorted(
        base.parent.glob(f"3.{minor - 1}.*/lib/python3.{minor - 1}/test/test_concurrent_futures.py")
    ):
        print(f"test_concurrent_futures is that of Python 3.{minor - 1}: {python} came without")
        return other
    return None


def _make(python: str, folder: Path, package: str | None, borrowed: Path | None) -> Environment:
    subprocess.run([python, "-m", "venv", "--without-pip", str(folder)], check=True)
    site = next((folder / "lib").glob("python3.*/site-packages"))
    if package is not None:
        # Nothing but forklift itself, of what may be installed beside it. No .pth file says so: reading one
        # takes an interpreter half a millisecond, which the other environment's would not.
        (site / "forklift").symlink_to(Path(package) / "forklift")
        shutil.copy(HERE / "hook.py", site / "sitecustomize.py")
    if borrowed is not None:
        shutil.copy(borrowed, site / "forklift_borrowed_tests.py")
        shutil.copy(HERE / "borrow.py", site / f"{BORROW}.py")
        (site / "forklift_borrow.pth").write_text(f"import {BORROW}\n")
    scratch = folder / "scratch"
    scratch.mkdir()
    return Environment(folder / "bin" / "python", scratch, package is None)


@contextlib.contextmanager
def pair(python: str) -> Iterator[tuple[Environment, Environment]]:
    """The environment with Forklift, and the one without, of an interpreter that can import forklift."""
    package = _ask(python, "import forklift, os; print(os.path.dirname(os.path.dirname(forklift.__file__)))")
    base = _ask(python, "import sys; print(sys._base_executable)")
    with tempfile.TemporaryDirectory(prefix="fl-", ignore_cleanup_errors=True) as name:
        root = Path(name)
        borrowed = _borrowed(python)
        yield (
            _make(base, root / "forklift", package, borrowed),
            _make(base, root / "standard", None, borrowed),
        )

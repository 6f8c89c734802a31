"""The examination of this process: the C++ core's guards, those of Python, and versions of packages."""

from __future__ import annotations

import os
import sys
from _thread import get_ident

from forklift import _core
from forklift.fork.findings import Finding, ForkReport

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Guard = Callable[[], Iterable[Finding]]

__all__ = ["examine", "fork_report", "must_examine", "register_fork_guard"]

_GROUP = "forklift.fork_guards"
_guards: dict[str, Guard] = {}
_has_entry_points = False

# The Python package whose version says more than the file's name does.
_PACKAGES = {
    "JAX": "jax",
    "gRPC": "grpc",
    "polars": "polars",
    "pyarrow": "pyarrow",
    "torch": "torch",
}


def register_fork_guard(name: str, guard: Guard | None) -> None:
    """Have each examination call ``guard()``, which returns `forklift.fork.Finding` objects.

    A guard of the same name is replaced, and removed by None. A guard that raises does not stop a fork: its
    failure becomes a finding. It runs in the thread that forks and must not wait. A package can name guards
    as entry points of the group ``forklift.fork_guards``; they are loaded by the first examination.
    """
    if guard is None:
        _guards.pop(name, None)
    elif callable(guard):
        _guards[name] = guard
    else:
        raise TypeError(f"a guard is a function without arguments, not {type(guard).__name__}")


def must_examine() -> bool:
    """False if a fork meets nothing: one thread and no guards. It takes microseconds."""
    return bool(_guards) or _core._guard.needs_examination()


def fork_report() -> ForkReport:
    """Examine this process as before a fork. Nothing is forked, warned of or changed.

    Returns the report; its ``findings`` are `forklift.fork.Finding` objects, worst first, and ``str()`` of it
    is a table.
    """
    return ForkReport(examine())


def examine() -> list[Finding]:
    """All findings, those of the core first. What a guard raises becomes a finding."""
    _load_entry_points()
    findings = [Finding(*parts) for parts in _core._guard.examine()]
    for finding in findings:
        _describe(finding)
    for name, guard in list(_guards.items()):
        try:
            found = list(guard())
            wrong = [each for each in found if not isinstance(each, Finding)]
            if wrong:
                raise TypeError(f"it returned {type(wrong[0]).__name__}, not forklift.fork.Finding")
            findings += found
        except Exception as error:
            findings.append(_failure(name, error))
    return findings


def _describe(finding: Finding) -> None:
    package = sys.modules.get(_PACKAGES.get(finding.library, ""))
    version = getattr(package, "__version__", None)
    if isinstance(version, str):
        finding.version = version
    threading = sys.modules.get("threading")
    if finding.library == "Python threads" and threading is not None:
        # Not current_thread(): in a thread that Python did not start, it makes an object that stays.
        names = [thread.name for thread in threading.enumerate() if thread.ident != get_ident()]
        finding.threads = tuple(names) or finding.threads


def _failure(name: str, error: BaseException) -> Finding:
    return Finding(
        name,
        state="unknown",
        verdict="may hang",
        evidence=f"its guard failed: {type(error).__name__}: {error}",
        remedy="repair the guard that was registered under this name",
    )


def _some_package_names_guards() -> bool:
    """Whether a file of entry points has our group. Importing importlib.metadata alone would take 20 ms."""
    for folder in sys.path:
        try:
            names = [name for name in os.listdir(folder or ".") if name.endswith((".dist-info", ".egg-info"))]
        except OSError:
            continue  # an archive, or nothing
        for name in names:
            try:
                with open(os.path.join(folder, name, "entry_points.txt"), encoding="utf-8") as file:
                    if f"[{_GROUP}]" in file.read():
                        return True
            except (OSError, ValueError):
                continue
    return False


def _load_entry_points() -> None:
    global _has_entry_points
    if _has_entry_points:
        return
    _has_entry_points = True
    if not _some_package_names_guards():
        return
    from importlib.metadata import entry_points

    for point in entry_points(group=_GROUP):
        if point.name in _guards:
            continue  # the program's own comes first
        try:
            register_fork_guard(point.name, point.load())
        except Exception as error:
            register_fork_guard(point.name, lambda point=point, error=error: [_failure(point.name, error)])  # type: ignore[misc]

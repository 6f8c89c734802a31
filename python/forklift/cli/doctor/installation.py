"""Python, the packages, and whether messages travel: each tried in a fresh process, which may crash."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from forklift.cli.doctor.finding import Finding, good, note, trouble, warning

__all__ = ["forks", "packages", "works"]

_SECONDS = 120.0
_EXCHANGE = """
import sys
import forklift.multiprocessing as mp

def answer(queue, back):
    back.put(queue.get() + 1)

if __name__ == "__main__":
    context = mp.get_context({method!r})
    queue, back = context.Queue(), context.Queue()
    child = context.Process(target=answer, args=(queue, back))
    child.start()
    queue.put(41)
    print(back.get(timeout=60))
    child.join()
"""
_FORKS = """
import importlib, json
importlib.import_module({module!r})
import forklift
print(json.dumps([[each.library, each.verdict, each.remedy] for each in forklift.fork_report().findings]))
"""
_PROBE = """
import torch, forklift.adapters.torch.tensors as tensors
tensors._learn()
print("known" if tensors._mechanics.known() else "unknown", torch.__version__, torch.version.cuda or "cpu")
"""


def _python(code: str) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh interpreter. The code is a file's, so that a spawned child can import it."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "doctor_program.py")
        with open(path, "w") as file:
            file.write(code)
        command = [sys.executable, path]
        try:
            return subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(command, -1, "", f"no answer within {_SECONDS:g} s")


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "no message"


def works() -> Iterator[Finding]:
    """Does a message travel to a child and back, by each start method?"""
    for method in ("fork", "spawn", "forkserver"):
        done = _python(_EXCHANGE.format(method=method))
        if done.stdout.strip() == "42" and done.returncode == 0:
            yield good("works", method, "a message went to a child and back")
        else:
            yield trouble(
                "works",
                method,
                f"failed with exit code {done.returncode}: {_last_line(done.stderr)}",
                "programs that start processes in this way fail",
                "see the findings above; if there is none, report this one",
            )


def packages() -> Iterator[Finding]:
    """The versions of what takes part."""
    from forklift._core import __version__

    yield good("python", "python", f"{sys.version.split()[0]} ({sys.executable})")
    yield good("python", "Forklift", __version__)
    for name in ("numpy", "torch"):
        if importlib.util.find_spec(name) is None:
            yield good("python", name, "not installed")
        elif name == "torch":
            yield _torch()
        else:
            done = _python(f"import {name}; print({name}.__version__)")
            yield (
                good("python", name, done.stdout.strip())
                if done.returncode == 0
                else warning("python", name, _last_line(done.stderr), "it cannot be imported", "reinstall it")
            )


def _torch() -> Finding:
    done = _python(_PROBE)
    parts = done.stdout.split()
    if done.returncode != 0 or len(parts) != 3:
        return warning(
            "python", "torch", _last_line(done.stderr), "tensors cannot be sent", "reinstall torch"
        )
    known, version, build = parts
    if known != "known":
        return warning(
            "python",
            "torch",
            f"{version} ({build}), of unknown layout",
            "a tensor is moved by torch's own functions, which is slower, and needs a descriptor for each",
            "report this version of torch",
        )
    return good("python", "torch", f"{version} ({build}); its tensors move into shared memory")


def forks(modules: list[str]) -> Iterator[Finding]:
    """What a fork would meet once each of these modules was imported."""
    for module in modules:
        done = _python(_FORKS.format(module=module))
        if done.returncode != 0:
            yield note(
                "forks", module, _last_line(done.stderr), "it could not be imported, so nothing is known"
            )
            continue
        found: list[Any] = json.loads(done.stdout.strip().splitlines()[-1])
        bad = [each for each in found if each[1] in ("may hang", "will hang")]
        for library, verdict, remedy in bad:
            yield warning(
                "forks",
                module,
                f"{library}: {verdict}",
                "a child that is forked after the import may hang",
                remedy or 'get_context("forkserver")',
            )
        if not bad:
            yield good("forks", module, "nothing that would make a forked child hang")

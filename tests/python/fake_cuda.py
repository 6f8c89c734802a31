"""The fake CUDA driver (tests/fake_cuda) for Python tests: where it is, and what makes a program use it.

environment = fake_cuda.environment(lazy=1, fail="cuMemCreate:1:2")
program = subprocess.run([sys.executable, "-c", SOURCE], env=environment)

The driver reads its settings at its first call, so it is for programs of their own, not for the test's
process.

With FORKLIFT_TEST_REAL_CUDA=1 in the environment the programs use the machine's own driver, and tests that
need settings of the fake one are skipped.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PLACE = Path("tests") / "fake_cuda" / "libcuda.so.1"


def is_real() -> bool:
    """Tell whether the machine's own driver is tested."""
    return os.environ.get("FORKLIFT_TEST_REAL_CUDA") == "1"


def run(program: Path, *arguments: str, **variables: str) -> list[str]:
    """What a program prints, which must end well. `variables`: of its environment, all of them."""
    done = subprocess.run(
        [sys.executable, program, *arguments],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
        env={**variables, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout.splitlines()


def find() -> Path:
    """The library in a build tree, the release one before others."""
    for path in [ROOT / "build" / "release" / PLACE, *sorted(ROOT.glob(f"build/*/{PLACE}"))]:
        if path.is_file():
            return path
    pytest.fail("the fake CUDA driver is not built: make core")


def environment(**settings: object) -> dict[str, str]:
    """This process's environment with the driver in it; `version=12000` is FORKLIFT_FAKE_CUDA_VERSION=12000.

    Programs that get the same `machine` share the devices' memory. Without one it is this process's alone.
    """
    names = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    if is_real():
        if settings.keys() - {"machine"}:
            pytest.skip(f"not on a real driver: it sets the fake one's {', '.join(settings)}")
        return names
    ours = {"machine": f"pytest-{os.getpid()}", **settings}
    return {
        **names,
        "FORKLIFT_LIBCUDA": str(find()),
        **{f"FORKLIFT_FAKE_CUDA_{name.upper()}": str(value) for name, value in ours.items()},
    }

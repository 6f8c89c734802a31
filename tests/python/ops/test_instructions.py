"""The loops for processors that have less: the tests of operations again, with each set of instructions."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
import support
from forklift import _core

HERE = Path(__file__).parent


def flags() -> set[str]:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("flags"):
            return set(line.split())
    return set()


@pytest.mark.skipif(platform.machine() != "x86_64", reason="one set of instructions on other processors")
@pytest.mark.parametrize("variant", ["base", "avx2", "avx512"])
def test_every_variant(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if {"avx2": "avx2", "avx512": "avx512dq"}.get(variant, "fpu") not in flags():
        pytest.skip(f"this processor has no {variant}")
    if _core._runtime.instructions() == variant and "FORKLIFT_CPU" not in os.environ:
        pytest.skip(f"this processor's own are {variant}: the other tests have used them")
    monkeypatch.setenv("FORKLIFT_CPU", variant)
    code = "from forklift import _core; print(_core._runtime.instructions())"
    assert support.run_python(code).split() == [variant]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
            *(str(HERE / f"test_{name}.py") for name in ("elementwise", "reductions")),
        ],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
        cwd=HERE.parents[2],
        env=dict(os.environ),
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert " passed" in done.stdout

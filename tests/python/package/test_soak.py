"""The soak in short, and that it notices what leaks. `make soak` runs it in full."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "chaos"))

import soak


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(soak.__file__), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)


@pytest.mark.slow
def test_twenty_thousand_mixed_messages_leave_nothing() -> None:
    done = run("--messages", "20000", "--round", "800")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.rstrip().endswith(": flat")
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "said"), [("blocks", "blocks"), pytest.param("queues", "queues", marks=pytest.mark.weekly)]
)
def test_a_leak_is_noticed(kind: str, said: str) -> None:
    done = run("--messages", "2000", "--round", "100", "--leak", kind)
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"{said}: " in done.stdout.splitlines()[-1]


def sample(**changed: int) -> dict[str, int]:
    names = (*soak.EXACT, *soak.FEW, *soak.RESIDENT, *soak.BYTES, "warm bytes")
    return {
        **dict.fromkeys(names, 1000),
        **{name.replace("_", " "): value for name, value in changed.items()},
    }


@pytest.mark.parametrize(
    ("name", "step", "flat"),
    [
        ("blocks", 0, True),
        ("blocks", 1, False),
        ("witness_descriptors", 1, False),
        ("mappings", 0, True),
        ("mappings", 1, False),
        ("resident", 10_000, True),
        ("resident", 100_000, False),
        ("channel_bytes", 100_000, False),
        ("warm_bytes", 10_000, True),
        ("warm_bytes", 1_000_000, False),
    ],
)
def test_what_counts_as_flat(name: str, step: int, flat: bool) -> None:
    samples: list[Any] = [sample(**{name: 1000 + i * step}) for i in range(120)]
    grew = soak.growth(samples)
    assert (not grew) == flat
    if not flat:
        assert grew[0].startswith(name.replace("_", " "))

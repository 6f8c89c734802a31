"""The event log: what happens to processes, as lines of JSON."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import forklift
import pytest

PROGRAM = Path(__file__).parent / "programs" / "logged.py"

OVER_BUDGET = """
import forklift
forklift.set_budget(64 << 20)
for _ in range(3):
    try:
        forklift.zeros((128 << 20,), dtype="uint8")
    except forklift.OverBudgetError:
        print("refused")
"""


def events_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_starts_ends_deaths_and_what_follows_are_logged(tmp_path, method):
    path = tmp_path / "events.jsonl"
    path.write_text('{"time": 0, "event": "before", "pid": 1}\n')
    began = time.time()
    said = subprocess.run(
        [sys.executable, "-W", "ignore", str(PROGRAM), str(path), method],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert said.returncode == 0, said.stderr
    main, good, bad = map(int, said.stdout.split())
    first, *events = events_of(path)
    assert first["event"] == "before"
    assert all(began - 1 < each["time"] < time.time() + 1 for each in events)

    def having(event, **fields):
        return [each for each in events if each["event"] == event and fields.items() <= each.items()]

    assert having("started", pid=main, of=good, name="good")
    assert having("ended", pid=main, of=good, name="good", exit_code=3)
    assert having("started", pid=good, name="grandchild")
    assert having("ended", pid=good, name="grandchild", exit_code=0)
    assert having("ended", pid=main, of=bad, name="bad", signal=9)
    (reaped,) = having("reaped", of=bad)
    assert (reaped["name"], reaped["clean"]) == ("bad", False)
    assert having("reaped", of=good, clean=True)
    (taken,) = having("taken-over", pid=main)
    assert taken["label"] == "door"
    assert taken["domain"] == reaped["domain"]
    assert not having("started", name="silent")


def test_a_refused_allocation_is_logged_once_a_second(tmp_path):
    path = tmp_path / "events.jsonl"
    said = subprocess.run(
        [sys.executable, "-c", OVER_BUDGET],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env=os.environ | {"FORKLIFT_EVENT_LOG": str(path)},
    )
    assert said.stdout.split() == ["refused"] * 3
    refused = [each for each in events_of(path) if each["event"] == "budget-reached"]
    assert len(refused) == 1
    assert refused[0]["asked"] == 128 << 20
    assert "67108864 allowed" in refused[0]["what"]


def test_a_file_that_cannot_be_opened(tmp_path):
    with pytest.raises(OSError, match="Is a directory"):
        forklift.log_to(tmp_path)
    assert "FORKLIFT_EVENT_LOG" not in os.environ

"""``forklift why`` names the cause in its first line: programs that stand still."""

import json
import subprocess
import sys

import pytest
from diagnosis_programs import running, until_stuck

COMMAND = [sys.executable, "-m", "forklift", "why"]

# What the first line says, in this order, and the word for programs.
CAUSES = {
    "deadlock": (
        "lock-cycle",
        ["Deadlock: process", "holds Lock", "waits for Lock", "deadlock.py:9 in work", "holds Lock"],
    ),
    "lost_worker": ("lost-worker", ["was killed by SIGKILL", "waits for a message", "lost_worker.py:"]),
    "full_queue": ("queue-full", ['queue "frames" is full', "nobody is left who takes", "4 of 4 messages"]),
    "join_before_get": (
        "queue-full",
        ["is full", "waits for the end of process", "room in queue", "10 of 10 messages"],
    ),
    "no_task_done": ("not-marked-done", ["3 messages of queue", "never marked done", "join()"]),
    "not_acknowledged": (
        "not-marked-done",
        ["messages of queue", "were taken and never acknowledged", "join()"],
    ),
    "short_barrier": ("too-few-parties", ["Barrier", "lacks 1 of its 3 parties"]),
    "stopped_holder": ("stopped-process", ["is stopped", "while it holds Lock", "waits"]),
    "waits_for_input": ("waits-for-input", ["reads its standard input", "waits for its end"]),
    "busy_pool": ("no-free-worker", ["no worker of the pool", "is free", "2 tasks wait"]),
    "no_notify": ("no-notification", ["nobody is left who could notify Condition", "no_notify.py:9 in "]),
    "queue_under_lock": (
        "mixed-cycle",
        ["Deadlock: process", "holds Lock", "a message in queue", "waits for Lock"],
    ),
    "lost_thread": ("lost-thread", ["waits for a lock in its own memory", "was forked", "not copied"]),
}


@pytest.mark.parametrize("name", CAUSES)
def test_the_first_line_names_the_cause(name):
    cause, words = CAUSES[name]
    with running(f"stuck/{name}.py", FORKLIFT_FORK_POLICY="allow") as program:
        found = until_stuck(program)
        assert found.findings[0].cause == cause, str(found)
        first = str(found).splitlines()[0]
        at = 0
        for word in words:
            at = first.find(word, at)
            assert at >= 0, f"{word!r} is not in {first!r}, or not in this order"
        assert found.findings[0].advice in str(found).splitlines()[1]


def test_the_command_says_the_same_and_ends_with_3():
    with running("stuck/short_barrier.py") as program:
        expected = until_stuck(program)
        for argument in ([str(program.pid)], []):
            said = subprocess.run(COMMAND + argument, capture_output=True, text=True, timeout=60, check=False)
            assert said.returncode == 3, said
            assert "lacks 1 of its 3 parties" in said.stdout
            assert argument == [] or said.stdout.startswith(expected.findings[0].text.split(" (for")[0])
        as_json = subprocess.run(
            [*COMMAND, str(program.pid), "--json"], capture_output=True, text=True, timeout=60, check=False
        )
        assert as_json.returncode == 3
        (report,) = json.loads(as_json.stdout)
        assert report["stuck"]
        assert report["findings"][0]["cause"] == "too-few-parties"
        assert report["waits"][0]["seconds_left"] is None

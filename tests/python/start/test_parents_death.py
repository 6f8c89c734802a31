"""A parent that is killed: whoever served it ends within two seconds, whoever did not lives on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import support
import targets

PARENTS = Path(__file__).parents[1] / "parents.py"
METHODS = ("fork", "spawn", "forkserver")
WITHIN_S = 2.0


def is_running(pid: int) -> bool:
    """A zombie that nobody has asked for yet runs no more."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


class Family:
    """parents.py, running, with its children."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(PARENTS), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            assert self.process.stderr is not None
            raise AssertionError(self.process.stderr.read())
        said: dict[str, Any] = json.loads(line)
        self.serving = {pid: kind for kind, pids in said["serving"].items() for pid in pids if pid}
        self.other: int = said["other"]

    def running(self) -> list[str]:
        return [f"{kind} {pid}" for pid, kind in self.serving.items() if is_running(pid)]

    def end(self) -> None:
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()


@pytest.fixture
def family(request: pytest.FixtureRequest) -> Iterator[Any]:
    made: list[Family] = []

    def make(*arguments: str) -> Family:
        made.append(Family(*arguments))
        return made[0]

    yield make
    for each in made:
        each.end()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("method", METHODS)
def test_who_serves_a_parent_ends_with_it(family: Any, method: str, number: signal.Signals) -> None:
    shm = set(os.listdir("/dev/shm"))
    one = family(method)
    assert len(one.running()) == len(one.serving)
    os.kill(one.process.pid, number)
    support.until(lambda: not [each for each in one.running() if "helpers" not in each], one, WITHIN_S)
    assert is_running(one.other)
    os.kill(one.other, signal.SIGKILL)  # it holds the fork server's and the tracker's pipes, as ever
    support.until(lambda: not one.running(), "no helper", WITHIN_S)
    assert one.process.wait() == -number
    support.until(lambda: set(os.listdir("/dev/shm")) <= shm, "nothing left in /dev/shm", WITHIN_S)


@pytest.mark.parametrize("method", METHODS)
def test_ctrl_c(family: Any, method: str) -> None:
    """The terminal sends it to all of them."""
    one = family(method)
    os.killpg(one.process.pid, signal.SIGINT)
    support.until(lambda: not one.running(), "everybody gone", WITHIN_S)
    assert one.process.wait() == -signal.SIGINT
    assert not is_running(one.other)


def test_the_standard_librarys_stay(family: Any) -> None:
    """What docs/reliability.md says of it, and so that this file can see a child that stays."""
    one = family("fork", "std")
    one.process.kill()
    one.process.wait()
    time.sleep(WITHIN_S)
    left = " ".join(one.running())
    for kind in ("daemons", "pool", "executor", "manager"):
        assert kind in left


def test_a_daemon_of_a_child_ends_with_that_child(ctx: Any) -> None:
    queue = ctx.Queue()
    middle = ctx.Process(target=targets.start_daemon, args=(ctx.get_start_method(), queue))
    middle.start()
    daemon = queue.get(timeout=support.DEADLINE)
    assert is_running(daemon)
    middle.kill()
    middle.join()
    support.until(lambda: not is_running(daemon), "the daemon's end", WITHIN_S)


def test_a_daemon_that_is_not_killed_ends_as_ever(ctx: Any) -> None:
    queue = ctx.Queue()
    daemon = ctx.Process(target=targets.put_one, args=(queue, 1), daemon=True)
    daemon.start()
    assert queue.get(timeout=support.DEADLINE) == 1
    daemon.join(support.DEADLINE)
    assert daemon.exitcode == 0


def test_descriptors_that_were_closed_under_us() -> None:
    """A program that closes everything: no daemon may end because a file that came in their place ends."""
    program = """
import os, sys, time
import forklift.multiprocessing as mp
def child():
    time.sleep(0.5)
    sys.exit(7)
if __name__ == "__main__":
    context = mp.get_context("fork")
    first = context.Process(target=int, daemon=True)
    first.start()
    first.join()
    os.closerange(3, 64)
    pipes = [os.pipe() for _ in range(8)]
    daemon = context.Process(target=child, daemon=True)
    daemon.start()
    for reader, writer in pipes:
        os.close(writer)
        os.close(reader)
    daemon.join()
    assert daemon.exitcode == 7, daemon.exitcode
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr

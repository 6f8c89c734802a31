"""Ranks, and their parents, that are killed. torch as the control where ``mp`` is a parameter."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import forklift.multiprocessing as ours
import pytest
import spawn_targets as targets
import support
from spawn_support import WITHIN_S, gone, is_running, join

KILLS = ("SIGKILL", "SIGTERM", "SIGUSR1")
PARENTS = Path(__file__).parents[1] / "spawn_parents.py"


@pytest.mark.parametrize("name", KILLS)
@pytest.mark.parametrize("which", [0, 1, 2])
def test_each_rank_is_killed(method: str, which: int, name: str) -> None:
    ready = ours.get_context(method).SimpleQueue()
    context = ours.start_processes(targets.wait_for_ever, (ready,), 3, join=False, start_method=method)
    pids = dict(ready.get() for _ in range(3))
    os.kill(pids[which], getattr(signal, name))
    began = time.monotonic()
    with pytest.raises(ours.ProcessExitedException) as caught:
        join(context)
    assert (caught.value.error_index, caught.value.signal_name) == (which, name)
    assert time.monotonic() - began < WITHIN_S
    assert gone(list(pids.values()))
    assert not getattr(caught.value, "__notes__", [])


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_ranks_are_killed_in_every_order(method: str, order: tuple[int, ...]) -> None:
    ready = ours.get_context(method).SimpleQueue()
    context = ours.start_processes(targets.wait_for_ever, (ready,), 3, join=False, start_method=method)
    pids = dict(ready.get() for _ in range(3))
    for rank in order:
        os.kill(pids[rank], signal.SIGKILL)
    with pytest.raises(ours.ProcessExitedException, match="terminated with signal SIGKILL"):
        join(context)
    assert gone(list(pids.values()))


class Family:
    """spawn_parents.py, which has ranks with ranks of their own."""

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
        said = json.loads(line)
        self.ranks: list[int] = said["ranks"]
        self.nested: list[int] = said["nested"]

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
def family() -> Iterator[Callable[..., Family]]:
    made: list[Family] = []

    def make(*arguments: str) -> Family:
        made.append(Family(*arguments))
        return made[-1]

    yield make
    for each in made:
        each.end()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("stubborn", ["", "stubborn"])
def test_all_end_with_a_killed_parent(family: Any, method: str, number: int, stubborn: str) -> None:
    """Ranks and ranks' ranks, also those that ignore the SIGINT which is all that torch's get."""
    one = family("forklift", method, stubborn)
    assert len(one.ranks) == 2
    assert len(one.nested) == 4
    os.kill(one.process.pid, number)
    support.until(lambda: gone([*one.ranks, *one.nested]), "all gone", WITHIN_S)


def test_ranks_of_a_killed_rank_end(family: Any, method: str) -> None:
    one = family("forklift", method, "")
    os.kill(one.ranks[0], signal.SIGKILL)
    support.until(lambda: gone([*one.ranks, *one.nested]), "all gone", WITHIN_S)
    assert one.process.wait(support.DEADLINE) == 1
    assert "process 0 terminated with signal SIGKILL" in one.process.stderr.read()


@pytest.mark.parametrize("stubborn", ["", "stubborn"])
def test_keyboard_interrupt_of_the_parent_alone(family: Any, method: str, stubborn: str) -> None:
    """With torch the parent waits at its exit for ranks that nobody has told."""
    one = family("forklift", method, stubborn)
    os.kill(one.process.pid, signal.SIGINT)
    support.until(lambda: gone([*one.ranks, *one.nested]), "all gone", support.DEADLINE)
    assert one.process.wait(support.DEADLINE) == -signal.SIGINT


def test_ctrl_c(family: Any, method: str) -> None:
    one = family("forklift", method, "")
    os.killpg(one.process.pid, signal.SIGINT)
    support.until(lambda: gone([*one.ranks, *one.nested]), "all gone", WITHIN_S)
    assert one.process.wait(support.DEADLINE) == -signal.SIGINT


def test_a_rank_may_clean_up_when_its_parent_is_gone(family: Any, method: str, tmp_path: Path) -> None:
    """As with torch it gets a KeyboardInterrupt, and no second one when another rank ends."""
    path = tmp_path / "cleaned"
    os.mkfifo(path)
    told = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        one = family("forklift", method, "", str(path))
        one.process.kill()
        support.until(lambda: gone(one.ranks), "all gone", WITHIN_S)
        assert os.read(told, 100) == b"cleaned up"
    finally:
        os.close(told)


def test_torchs_ranks_outlive_a_parent(family: Any) -> None:
    """The control: what they ignore, and so that this file can see a process that stays."""
    pytest.importorskip("torch")
    one = family("torch", "fork", "stubborn")
    one.process.kill()
    one.process.wait()
    time.sleep(WITHIN_S)
    assert [pid for pid in one.nested if is_running(pid)]


def test_a_rank_outlives_the_thread_that_started_it(method: str) -> None:
    """torch's ranks get SIGINT when the thread that has started them ends."""
    ready = ours.get_context(method).SimpleQueue()
    found: list[Any] = []

    def start() -> None:
        found.append(
            ours.start_processes(targets.wait_for_ever, (ready,), 1, join=False, start_method=method)
        )

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    _, pid = ready.get()
    assert found[0].join(0.3) is False
    assert is_running(pid)
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(ours.ProcessExitedException):
        join(found[0])

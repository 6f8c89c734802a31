"""Kill storms with tensors under both strategies: only what a killed process held is lost.

Producers put tensors of every kind into one queue, others pass them on through a second one and keep some,
and this process receives them. All but this one are killed at random moments and replaced; under file_system
the manager is, too. ``FORKLIFT_STORM_KILLS`` makes the storm longer.
"""

from __future__ import annotations

import os
import queue as queue_module
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import storm_targets
import support
from forklift._core import _segments
from torch_support import DEADLINE, is_held, torch

KILLS = int(os.environ.get("FORKLIFT_STORM_KILLS", "0"))
PRODUCERS, RELAYS, MOST_KILLS = 2, 2, 10_000


pytestmark = pytest.mark.usefixtures("shm_manager")


class Storm:
    def __init__(self, ctx: Any, rng: random.Random) -> None:
        self.ctx, self.rng = ctx, rng
        self.made, self.passed = ctx.Queue(8), ctx.Queue(8)
        self.counts = ctx.Array("q", PRODUCERS + MOST_KILLS, lock=False)
        self.started = 0  # producers
        self.hands = 0  # killed processes that had a message in their hands, at most
        self.seen: dict[float, Any] = {}
        self.producers = [self.producer() for _ in range(PRODUCERS)]
        self.relays = [self.relay() for _ in range(RELAYS)]

    def _start(self, target: Any, *args: Any) -> Any:
        process = self.ctx.Process(target=target, args=args, daemon=True)
        process.start()
        return process

    def producer(self) -> Any:
        self.started += 1
        place = self.started - 1
        return self._start(storm_targets.produce, self.made, self.counts, place, self.started)

    def relay(self) -> Any:
        return self._start(storm_targets.pass_on, self.made, self.passed)

    def receive(self, wait: float) -> bool:
        """Take one message, if one comes. Each tensor is whole, in shared memory, and comes once."""
        try:
            number, value = self.passed.get(timeout=wait)
        except queue_module.Empty:
            return False
        self.take(number, value)
        return True

    def take(self, number: float, value: Any) -> None:
        assert not isinstance(value, str), f"{number}: {value}"
        assert storm_targets.elements(value) == {number}
        assert number not in self.seen
        self.seen[number] = value if self.rng.random() < 0.1 else None  # some are kept to the end
        if isinstance(value, torch.Tensor) and not value.is_sparse:
            assert is_held(value)

    def kill(self, process: Any) -> None:
        process.kill()
        process.join(DEADLINE)
        assert process.exitcode == -signal.SIGKILL

    def kill_one(self) -> None:
        place = self.rng.randrange(PRODUCERS + RELAYS)
        if place < PRODUCERS:
            self.kill(self.producers[place])
            self.producers[place] = self.producer()
        else:
            self.kill(self.relays[place - PRODUCERS])
            self.relays[place - PRODUCERS] = self.relay()
            self.hands += 1

    def end(self) -> None:
        """Kill everybody, and take what is left of both queues."""
        for process in self.producers:
            self.kill(process)
        for process in self.relays:
            self.kill(process)
            self.hands += 1
        while self.receive(0.0):
            pass
        while not self.made.empty():
            self.take(*self.made.get(timeout=DEADLINE))
        self.made.close()
        self.passed.close()


def managers() -> list[int]:
    """Both processes of the manager of this domain."""
    return support.managers(Path(_segments.socket()).stem.removeprefix("forklift-"))


def named_files() -> list[str]:
    return [name for name in os.listdir(_segments.folder()) if name.startswith("torch_")]


def storm(ctx: Any, kills: int, seed: int, strategy: str) -> Storm:
    rng = random.Random(seed)
    storm = Storm(ctx, rng)
    for kill in range(min(kills, MOST_KILLS)):
        assert storm.receive(DEADLINE)  # somebody is always at work
        end = time.monotonic() + rng.random() * 0.05
        while time.monotonic() < end:
            storm.receive(max(0.0, end - time.monotonic()))
        storm.kill_one()
        if strategy == "file_system" and kill % 5 == 4:
            os.kill(rng.choice(support.until(managers, "a manager")), signal.SIGKILL)
    storm.end()
    return storm


@pytest.mark.parametrize("seed", [1, 2])
def test_a_storm(ctx: Any, strategy: str, seed: int) -> None:
    # A fresh interpreter imports torch for two seconds.
    kills = KILLS or (40 if ctx.get_start_method() == "fork" else 3)
    done = storm(ctx, kills, seed, strategy)
    put = sum(done.counts)
    # A producer may be killed between its put and its count, so there may be more than it has counted.
    assert put - done.hands <= len(done.seen) <= put + done.started
    assert put > kills
    print(f"{strategy}: {kills} kills, {len(done.seen)} of {put} tensors arrived")
    done.seen.clear()
    support.until(lambda: not named_files(), "all names gone", 5.0)
    assert _segments.stats() == (0, 0)

"""Processes that run cases side by side, each in its own process group, under a time limit for each case."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Iterator
from typing import IO, Any

from environment import Environment

CLASSES_AT_ONCE = 6
LAST_LINES = 60
# How long a process and its children have to show their stacks, and to end by themselves.
SHOW_S = 3.0
END_S = 10.0


@dataclasses.dataclass
class Case:
    """One test and what became of it: passed, failed or skipped."""

    suite: str
    name: str
    outcome: str
    why: str
    seconds: float


class _Hand:
    """One worker process at work on a list of cases."""

    def __init__(self, env: Environment, suite: str, names: list[str], number: int, limit: float) -> None:
        self.left = list(names)
        self.current: str | None = None
        self.began = time.monotonic()
        self.log = env.scratch / f"worker-{number}.log"
        results, given = os.pipe()
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [*env.command(suite), "--results", str(given), "--limit", str(limit)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=env.scratch,
                env=env.variables(),
                pass_fds=[given],
                start_new_session=True,
            )
        os.close(given)
        stream = self.process.stdin
        assert stream is not None
        with contextlib.suppress(BrokenPipeError), stream:
            stream.write(json.dumps(names).encode())
        self.results: IO[bytes] = os.fdopen(results, "rb", buffering=0)
        self._line = b""

    def read(self) -> list[dict[str, Any]] | None:
        """What it said since; None when it has ended."""
        data = self.results.read(1 << 16)
        if not data:
            return None
        *lines, self._line = (self._line + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def signal(self, number: int) -> bool:
        """To it and all its children. False if nobody is left."""
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            return False
        return True

    def show_stacks(self) -> None:
        """Python prints them when it is aborted; forked children, too."""
        self.signal(signal.SIGABRT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(SHOW_S)

    def end(self) -> str | None:
        """Wait for the worker and end what it left behind; says what that was."""
        try:
            self.process.wait(END_S)
            wrong = None
        except subprocess.TimeoutExpired:
            self.show_stacks()
            wrong = "did not end after its last case"
        deadline = time.monotonic() + END_S
        while self.signal(0):
            if time.monotonic() > deadline:
                self.signal(signal.SIGKILL)
                wrong = wrong or "left processes behind"
                break
            time.sleep(0.02)
        self.process.wait()
        self.results.close()
        return wrong

    def tail(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()
        return "\n".join(lines[-LAST_LINES:])


class CaseRunner:
    """Runs the cases of a suite; `notes` says afterwards what was unusual without being a failure."""

    def __init__(self, env: Environment, suite: str, jobs: int, limit: float) -> None:
        self._env, self._suite, self._jobs, self._limit = env, suite, jobs, limit
        self._number = 0
        self.notes: list[str] = []

    def run(self, cases: dict[str, list[str]]) -> Iterator[Case]:
        """Each case once, in the order in which they end."""
        classes = [[f"{cls}.{name}" for name in names] for cls, names in cases.items()]
        batches = [
            [name for names in classes[i : i + CLASSES_AT_ONCE] for name in names]
            for i in range(0, len(classes), CLASSES_AT_ONCE)
        ]
        with selectors.DefaultSelector() as selector:
            hands: set[_Hand] = set()
            try:
                while batches or hands:
                    while batches and len(hands) < self._jobs:
                        hand = self._begin(batches.pop(0))
                        hands.add(hand)
                        selector.register(hand.results, selectors.EVENT_READ, hand)
                    for key, _ in selector.select(0.2):
                        hand = key.data
                        said = hand.read()
                        if said is not None:
                            yield from self._take(hand, said)
                            continue
                        selector.unregister(hand.results)
                        hands.discard(hand)
                        yield from self._finish(hand, batches)
                    for hand in hands:
                        if time.monotonic() - hand.began > self._limit:
                            hand.show_stacks()
                            hand.signal(signal.SIGKILL)
            finally:
                for hand in hands:
                    hand.signal(signal.SIGKILL)
                    hand.process.wait()

    def _begin(self, names: list[str]) -> _Hand:
        self._number += 1
        return _Hand(self._env, self._suite, names, self._number, self._limit)

    def _take(self, hand: _Hand, said: list[dict[str, Any]]) -> Iterator[Case]:
        for each in said:
            hand.began = time.monotonic()
            if "begins" in each:
                hand.current = each["begins"]
            elif "fixture" in each:
                yield from self._fixture(hand, each)
            else:
                hand.current = None
                hand.left.remove(each["ends"])
                yield Case(self._suite, each["ends"], each["outcome"], each["why"], each["seconds"])

    def _fixture(self, hand: _Hand, said: dict[str, Any]) -> Iterator[Case]:
        """setUpClass and the like: it failed by itself, or all cases of the class (or module) are skipped."""
        if said["outcome"] == "failed":
            yield Case(self._suite, said["fixture"], "failed", said["why"], 0.0)
            return
        # "setUpClass (module.Class)"
        inside = said["fixture"].partition("(")[2].rstrip(")") + "."
        for name in [each for each in hand.left if each.startswith(inside)]:
            hand.left.remove(name)
            yield Case(self._suite, name, "skipped", said["why"], 0.0)

    def _finish(self, hand: _Hand, batches: list[list[str]]) -> Iterator[Case]:
        """The worker has ended: in good order, or in the middle of a case."""
        seconds = time.monotonic() - hand.began
        wrong = hand.end()
        code = hand.process.returncode
        if hand.current is not None:
            hand.left.remove(hand.current)
            how = (
                f"took longer than {self._limit:g} s"
                if seconds > self._limit
                else f"ended its process: {code}"
            )
            yield Case(self._suite, hand.current, "failed", f"{how}\n{hand.tail()}", seconds)
            if hand.left:
                batches.insert(0, hand.left)
        elif hand.left:
            why = f"was not run: the worker ended with {code}\n{hand.tail()}"
            for name in hand.left:
                yield Case(self._suite, name, "failed", why, 0.0)
                why = "was not run"
        elif wrong or code:
            self.notes.append(f"{self._suite}: a worker {wrong or f'ended with {code}'}\n{hand.tail()}")

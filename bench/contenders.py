"""The contenders of the Python rows: each is an interpreter of its own, and they measure in turn."""

from __future__ import annotations

import functools
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

from distance import Wanted
from rows.spec import FLOOR, Figures, Row, Scale

WORKER = Path(__file__).with_name("worker.py")
# The longest time for one measurement; a contender that takes longer hangs.
PATIENCE_S = 180
# Libraries' threads spin for a while after the work: OpenBLAS's for a tenth of a second.
REST_S = 0.002
RESTING_LOOKS = 3
MOST_REST_S = 1.0
# What the C++ program says of a contender that it cannot measure here.
LEFT_OUT = re.compile(r"[^:]+: left out: ([^:]+): (.*)")


def privileged(nice: int) -> Callable[[], None] | None:
    """Sets the scheduling weight of a child that is about to run its program in a session of its own.

    Linux weighs sessions first (autogroups) and processes within them, so both are set.
    """
    if nice == 0:
        return None

    def before_exec() -> None:
        os.nice(nice)
        try:
            Path("/proc/self/autogroup").write_text(f"{nice}\n")
        except OSError:
            pass  # a kernel without autogroups

    return before_exec


def computes(pid: int) -> bool:
    """Is a thread of the process running, or waiting for a processor?"""
    try:
        tasks = [task.read_text() for task in Path(f"/proc/{pid}/task").glob("*/stat")]
    except OSError:  # a thread ended meanwhile, or the process
        return Path(f"/proc/{pid}").exists()
    return any(task.rpartition(")")[2].split()[0] == "R" for task in tasks)


class Contender:
    def __init__(self, name: str, scale: Scale, nice: int) -> None:
        command = [sys.executable, str(WORKER), name]
        command += ["--quick"] * scale.quick + ["--tiny"] * scale.tiny
        self.name = name
        # A session of its own, so that a contender that hangs is killed with all its children.
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=privileged(nice),
        )

    def measure(self, row: str) -> float:
        told, heard = self._stream(self._process.stdin), self._stream(self._process.stdout)
        try:
            told.write(f"{row}\n")
            told.flush()
        except BrokenPipeError:
            pass  # go on: end-of-file below gives the better error
        if not select.select([heard], [], [], PATIENCE_S)[0]:
            raise RuntimeError(f"{self.name} gave no answer in {PATIENCE_S} s")
        line = heard.readline()
        if not line:
            raise RuntimeError(f"{self.name} ended with {self._process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(f"{self.name}: {answer['error']}")
        return float(answer["value"])

    def rest(self) -> None:
        """Waits until none of its threads computes, so that the next contender is alone."""
        end = time.monotonic() + MOST_REST_S
        looks = 0  # one after another that found none
        while looks < RESTING_LOOKS and time.monotonic() < end:
            looks = 0 if computes(self._process.pid) else looks + 1
            time.sleep(REST_S)

    def close(self) -> None:
        self._stream(self._process.stdin).close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._stream(self._process.stdout).close()

    @staticmethod
    def _stream(stream: IO[str] | None) -> IO[str]:
        assert stream is not None
        return stream


def measure(
    row: Row,
    repeat: int,
    scale: Scale,
    nice: int,
    tick: Callable[[], None],
    started: dict[str, Contender] | None = None,
    state: Wanted | None = None,
) -> Figures:
    """Measures ours, the peers, the floor, ours, the peers, ... `repeat` times.

    Without an optional peer that fails, the row goes on; what it measured until then is not kept. Contenders
    are started for the row and end with it, except with `started`: they are taken from there and left there,
    for rows whose start takes longer than their measurements. The caller closes those. With `state`, only
    measurements that began and ended in it count.
    """
    figures = Figures()
    values = {row.ours: figures.ours}
    for peer in (*([row.peer] if row.peer else []), *(other.name for other in row.present)):
        values[peer] = figures.peers.setdefault(peer, [])
    optional = {other.name for other in row.present}
    if row.floor is not None:
        values[FLOOR] = figures.floors.setdefault(row.floor_name, [])
    kept = {} if started is None else started
    for name in values:
        if name not in kept:
            kept[name] = Contender(name, scale, nice)
    contenders = [kept[name] for name in values]
    try:
        for _ in range(repeat):
            for contender in contenders:
                if contender.name in figures.left_out:
                    continue
                try:
                    measure_it = functools.partial(contender.measure, row.name)
                    values[contender.name].append(measure_it() if state is None else state.take(measure_it))
                    contender.rest()
                except RuntimeError as error:
                    if contender.name not in optional:
                        raise
                    figures.left_out[contender.name] = str(error)
                    del figures.peers[contender.name]
                    contender.close()  # one that hangs must not compute beside the others
                    kept.pop(contender.name)
                tick()
    except RuntimeError:
        # Whoever failed may have left anything behind: the next row begins with others.
        for name in values:
            if name in kept:
                kept.pop(name).close()
        raise
    finally:
        if started is None:
            for contender in kept.values():
                contender.close()
    return figures


def measure_cpp(program: Path, row: Row, repeat: int, scale: Scale, nice: int, pin: bool) -> Figures:
    """The same for a row of the C++ program, which alternates between its contenders itself."""
    figures = Figures()
    _run_cpp(figures, _command(program, row, repeat, scale, pin), row, nice)
    return figures


def measure_cpp_in(
    state: Wanted, program: Path, row: Row, repeat: int, scale: Scale, nice: int, pin: bool
) -> Figures:
    """The same, one contender at a time, of which only what began and ended in this state counts."""
    command = _command(program, row, 1, scale, pin)
    figures = Figures()

    def one(name: str) -> Figures:
        taken = Figures()
        _run_cpp(taken, [*command, "--contenders", name], row, nice)
        return taken

    all_of_them = Figures()
    names = _run_cpp(all_of_them, command, row, nice)
    figures.left_out.update(all_of_them.left_out)
    for _ in range(repeat):
        for name in names:
            figures.extend(state.take(functools.partial(one, name)))
    return figures


def _command(program: Path, row: Row, repeat: int, scale: Scale, pin: bool) -> list[str]:
    command = [str(program), "--rows", row.name, "--repeat", str(repeat)]
    return command + ["--quick"] * scale.quick + ["--pin"] * pin


def _run_cpp(figures: Figures, command: list[str], row: Row, nice: int) -> list[str]:
    """Writes what the program measures into `figures`. The names of its contenders."""
    run = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        start_new_session=True,
        preexec_fn=privileged(nice),
    )
    if run.returncode != 0:
        raise RuntimeError(run.stderr.strip() or f"{Path(command[0]).name} ended with {run.returncode}")
    places = {"peer": figures.peers, "floor": figures.floors, "part": figures.parts}
    names = []
    for line in run.stdout.splitlines():
        one = json.loads(line)
        if one["unit"] != row.unit:
            raise RuntimeError(f"{row.name} is measured in {one['unit']}, not in {row.unit}")
        names.append(one["contender"])
        if one["role"] == "ours":
            figures.ours = one["values"]
        else:
            places[one["role"]][one["contender"]] = one["values"]
    for line in run.stderr.splitlines():
        if left_out := LEFT_OUT.fullmatch(line):
            figures.left_out[left_out[1]] = left_out[2]
    return names

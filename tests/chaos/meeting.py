"""A C++ camera and a Python viewer on one queue, either killed at random; nothing may be lost but what a kill
takes along.

    python tests/chaos/meeting.py --kills 200 [--seed N]

The programs are examples/cpp/camera.cpp and examples/camera_viewer.py. Neither is the other's child: they
meet by name, and whoever is killed is started again at once, while the other one lives on. A kill comes at
any moment from the victim's start on, so joining, taking over and leaving are hit, too.

From the log that both write with one system call a line:

- no picture arrives twice, none that was not sent, and those of one camera arrive in their order;
- of the pictures whose put had returned at most one for each kill of a viewer is missing;
- a picture whose put was cut off by a kill may have arrived or not;
- the last program finds a domain whose audit is clean and in which nothing is held;
- when it has ended, too, there is no file in the runtime directory.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
VIEWER = ROOT / "examples" / "camera_viewer.py"
PATIENCE_S = 60.0


def find_camera() -> Path:
    """The newest build of the camera."""
    found = [path for path in ROOT.glob("build/*/examples/camera") if path.is_file()]
    if not found:
        raise SystemExit("the camera is not built: run `make core`")
    return max(found, key=lambda path: path.stat().st_mtime)


class Camera:
    """What was sent and received of one camera, whose numbers count up from 0."""

    def __init__(self) -> None:
        self.begun = self.sent = self.got = -1  # the last number
        self.received = 0

    @property
    def lost(self) -> int:
        # What was begun and not returned from may have arrived or not.
        unfinished = self.got == self.begun > self.sent
        return self.sent + 1 - (self.received - unfinished)


class Log:
    """What the programs have written down so far."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = None if file is None else file.open("a+")
        self._rest = ""
        self._arrived: set[int] = set()
        self.cameras: dict[int, Camera] = {}
        self.wrong: list[str] = []

    def read(self) -> None:
        assert self._file is not None
        text = self._rest + self._file.read()
        lines = text.split("\n")
        self._rest = lines.pop()
        for line in lines:
            self.add(line)

    def add(self, line: str) -> None:
        what, pid, *numbers = line.split()
        if what == "i":
            self._arrived.add(int(pid))
            return
        camera = self.cameras.setdefault(int(numbers[0] if what == "-" else pid), Camera())
        number = int(numbers[-1])
        if what == "+":
            camera.begun = number
        elif what == "=":
            camera.sent = number
        elif number <= camera.got:
            self.wrong.append(f"picture {line[2:]} came twice, or too late")
        else:
            camera.got = number
            camera.received += 1

    def is_in(self, pid: int) -> bool:
        self.read()
        return pid in self._arrived

    def total(self, what: str) -> int:
        return sum(getattr(camera, what) for camera in self.cameras.values())


class Ends:
    """The two programs, each of which is started again when it was killed."""

    def __init__(self, folder: Path, log: Path) -> None:
        self._environment = {**os.environ, "XDG_RUNTIME_DIR": str(folder)}
        common = ["--name", "chaos", "--log", str(log)]
        self.result = folder / "result.json"
        viewer = [sys.executable, str(VIEWER), *common, "--json", str(self.result)]
        self.commands = {
            "camera": [str(find_camera()), *common, "--size", "64x64"],
            "viewer": [*viewer, "--quiet", "60"],
            "last viewer": [*viewer, "--quiet", "1.5"],
        }
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str) -> None:
        self.running[name] = subprocess.Popen(self.commands[name], env=self._environment)

    def end(self, name: str, number: int) -> None:
        """Ends it by the signal. It must have run until then."""
        process = self.running.pop(name)
        if process.poll() is not None:
            raise SystemExit(f"the {name} ended by itself with {process.returncode}")
        process.send_signal(number)
        process.wait(PATIENCE_S)

    def wait(self, name: str) -> None:
        code = self.running.pop(name).wait(PATIENCE_S)
        if code != 0:
            raise SystemExit(f"the {name} ended with {code}")


def until_in(log: Log, process: subprocess.Popen[bytes], name: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not log.is_in(process.pid):
        if process.poll() is not None:
            raise SystemExit(f"the {name} ended with {process.returncode} before it was in")
        if time.monotonic() > end:
            raise SystemExit(f"the {name} did not get in within {PATIENCE_S:.0f} s")
        time.sleep(0.01)


def storm(ends: Ends, log: Log, kills: int, chance: random.Random) -> dict[str, int]:
    killed = {"camera": 0, "viewer": 0}
    for name in killed:
        ends.start(name)
    names = list(killed)
    for _ in range(kills):
        chance.shuffle(names)
        victim, survivor = names
        until_in(log, ends.running[survivor], survivor)
        # From the first moment of a program that was just started to well into its work.
        time.sleep(chance.expovariate(1 / 0.15) if chance.random() < 0.8 else 0)
        ends.end(victim, signal.SIGKILL)
        killed[victim] += 1
        ends.start(victim)
    return killed


def finish(ends: Ends, log: Log) -> dict[str, Any]:
    """The camera ends in good order, the last viewer empties the queue and ends, too."""
    for name in ("camera", "viewer"):
        until_in(log, ends.running[name], name)
    ends.end("viewer", signal.SIGKILL)
    ends.start("last viewer")
    until_in(log, ends.running["last viewer"], "last viewer")
    camera = ends.running.pop("camera")
    camera.terminate()
    if camera.wait(PATIENCE_S) != 0:
        raise SystemExit(f"the camera ended with {camera.returncode}")
    ends.wait("last viewer")
    found: dict[str, Any] = json.loads(ends.result.read_text())
    return found


def judge(log: Log, killed: dict[str, int]) -> list[str]:
    """What is wrong with what was sent and received, in words."""
    wrong = list(log.wrong)
    for pid, camera in log.cameras.items():
        if camera.got > camera.begun:
            wrong.append(f"pictures of camera {pid} came that it did not send")
    lost = log.total("lost")
    if lost > killed["viewer"]:
        wrong.append(f"{lost} pictures are lost, by {killed['viewer']} kills of viewers")
    if not log.total("received"):
        wrong.append("nothing was received")
    return wrong


def run(kills: int, seed: int) -> int:
    with tempfile.TemporaryDirectory(prefix="forklift-chaos-") as name:
        folder = Path(name)
        log = Log(folder / "log")
        ends = Ends(folder, folder / "log")
        begin = time.monotonic()
        try:
            killed = storm(ends, log, kills, random.Random(seed))
            found = finish(ends, log)
            killed["viewer"] += 1
        finally:
            for process in ends.running.values():
                process.kill()
                process.wait()
        log.read()
        wrong = judge(log, killed) + list(found["audit"])
        # The queue is held by its name and by the viewer.
        for what, most in {"blocks": 0, "leases": 2, "queues": 1, "processes": 1}.items():
            if found[what] > most:
                wrong.append(f"{found[what]} {what} are left")
        wrong += [f"left behind: {path.name}" for path in (folder / "forklift").iterdir()]
        print(
            f"seed {seed}: {killed['camera']} cameras and {killed['viewer']} viewers killed in "
            f"{time.monotonic() - begin:.0f} s; {log.total('received')} pictures received, "
            f"{log.total('lost')} lost with their viewers, {len(wrong)} things wrong"
        )
        for line in wrong:
            print(f"  {line}")
        return 1 if wrong else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    arguments = parser.parse_args()
    return run(arguments.kills, arguments.seed)


if __name__ == "__main__":
    sys.exit(main())

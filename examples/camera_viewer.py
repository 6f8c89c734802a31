"""Looks at the pictures of a C++ camera (examples/cpp/camera.cpp), which it meets by name.

    build/release/examples/camera &          # in any order, as often as you like, and killed as you like
    python examples/camera_viewer.py [--name NAME] [--frames N] [--quiet SECONDS] [--log FILE]

Whoever comes first serves the name and makes the queue; the other one attaches. A picture is a NumPy array
over the memory that the camera wrote. The program ends after N pictures, or when none came for some seconds.

With --log it writes down "- pid camera number" for each picture that it got; see tests/chaos/meeting.py.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import sys
from pathlib import Path
from typing import Any

import forklift
import numpy as np

CAPACITY = 8


class Log:
    """A line a call of write(2): what was written survives any death."""

    def __init__(self, file: Path | None) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._file = None if file is None else os.open(file, flags, 0o600)

    def line(self, what: str, *numbers: int) -> None:
        if self._file is not None:
            os.write(self._file, f"{what} {os.getpid()} {' '.join(map(str, numbers))}\n".encode())


def is_whole(image: Any, number: int) -> bool:
    rows: Any = (np.arange(image.shape[0]) + number).astype(np.uint8)
    return bool((image == rows[:, None, None]).all())


def look(name: str, count: int | None, quiet: float, log: Log) -> dict[str, Any]:
    domain = forklift.meet(name)
    frames = domain.open_or_create("frames", lambda: forklift.PortableQueue(CAPACITY))
    log.line("i")
    seen = 0
    while count is None or seen < count:
        try:
            frame = frames.get(timeout=quiet)
        except queue.Empty:
            break
        log.line("-", frame["by"], frame["number"])
        if not is_whole(frame["image"], frame["number"]):
            raise SystemExit(f"picture {frame['number']} of camera {frame['by']} is not whole")
        seen += 1
        del frame
    left = forklift.stats()
    result = {"frames": seen, "audit": forklift.audit(), "serving": domain.serving}
    return result | {what: left[what] for what in ("blocks", "leases", "queues", "processes")}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--name", default="forklift-camera")
    parser.add_argument("--frames", type=int, help="end after so many (default: never)")
    parser.add_argument("--quiet", type=float, default=10.0, help="end when none came for so many seconds")
    parser.add_argument("--log", type=Path)
    parser.add_argument("--json", type=Path, help="write the result there too")
    arguments = parser.parse_args()
    result = look(arguments.name, arguments.frames, arguments.quiet, Log(arguments.log))
    print(f"{result['frames']} whole pictures")
    if arguments.json:
        arguments.json.write_text(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""A C++ simulator and a Python program, one pair of queues: frames come, answers go back.

    python examples/simulator.py [--steps N] [--program PATH]

The simulator (examples/cpp/simulator.cpp) moves a disc over a noisy background and sends each picture with
the disc's place; this program looks at the picture only, finds the disc, and answers. The picture is a tensor
in shared memory: the simulator writes it where this program reads it. At the end the simulator says how far
off the answers were on average, and this program compares that with its own sum.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from pathlib import Path
from typing import Any

import forklift
import numpy as np

ROOT = Path(__file__).resolve().parent.parent


def find_program() -> Path:
    """The newest build of the simulator."""
    found = [path for path in ROOT.glob("build/**/simulator") if path.is_file()]
    if not found:
        raise SystemExit("the simulator is not built: run `make examples`, or name it with --program")
    return max(found, key=lambda path: path.stat().st_mtime)


def locate(picture: np.ndarray) -> tuple[float, float]:
    """Where the disc is, in pixels: the centre of what is brighter than half way between dark and bright."""
    red = picture[:, :, 0]
    rows, columns = np.nonzero(red > (int(red.min()) + int(red.max())) // 2)
    return float(columns.mean()), float(rows.mean())


def run(program: Path, steps: int) -> dict[str, Any]:
    frames, answers = forklift.PortableQueue(), forklift.PortableQueue()
    channels = {"frames": frames, "answers": answers}
    simulator = forklift.Program([program, "--steps", str(steps)], channels=channels)
    errors: list[float] = []
    received = 0
    start = time.perf_counter()
    while "done" not in (frame := frames.get(timeout=30)):
        picture = frame["image"]
        x, y = locate(picture)
        answers.put({"step": frame["step"], "x": x, "y": y})
        errors.append(math.dist((x, y), frame["truth"]))
        received += picture.nbytes
    seconds = time.perf_counter() - start
    if simulator.wait(timeout=30) != 0:
        raise SystemExit(f"the simulator ended with exit status {simulator.returncode}")
    return {
        "frames": len(errors),
        "frames_per_s": len(errors) / seconds,
        "MB_per_s": received / 1e6 / seconds,
        "mean_error": sum(errors) / len(errors),
        "mean_error_there": frame["mean_error"],
        "shape": list(picture.shape),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--program", type=Path, help="the simulator's executable")
    parser.add_argument("--json", type=Path, help="write the result there too")
    arguments = parser.parse_args()
    result = run(arguments.program or find_program(), arguments.steps)
    print(
        f"{result['frames']} frames of {'x'.join(map(str, result['shape']))} from C++: "
        f"{result['frames_per_s']:.0f} frames/s, {result['MB_per_s']:.0f} MB/s; "
        f"{result['mean_error']:.2f} pixels off on average"
    )
    if arguments.json:
        arguments.json.write_text(json.dumps(result))
    if not math.isclose(result["mean_error"], result["mean_error_there"], rel_tol=1e-6, abs_tol=1e-9):
        print(f"the simulator counted {result['mean_error_there']:.6f}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

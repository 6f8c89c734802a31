"""Check the protocols' models with spin.

python tests/model/run.py [MODEL ...] [--kills N]

Each model must hold in every state that it can reach, and each of its seeded faults (`-DSEED=n`, told in the
model's head) must be found: a model that finds nothing wrong with a wrong protocol says nothing about a right
one. Needs `spin` and a C compiler. The exit status tells whether all was as it must be.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
# How many seeded faults each has.
MODELS = {
    "message": 3,
    "batch": 9,
    "chunks": 3,
    "event": 3,
    "slot": 2,
    "condition": 4,
    "pipe": 2,
    "topic": 4,
    "depot": 3,
}

STATES = re.compile(r"^\s*(\d+) states, stored", re.MULTILINE)
ERRORS = re.compile(r"errors: (\d+)")


def explore(model: Path, defines: list[str]) -> tuple[int, int]:
    """Every state of a model: how many there are, and in how many of them something was wrong (at most 1)."""
    with tempfile.TemporaryDirectory(prefix="forklift-model-") as folder:

        def run(*command: str) -> str:
            done = subprocess.run(
                command, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            )
            if done.returncode != 0:
                raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}")
            return done.stdout

        run("spin", *defines, "-a", str(model))
        run("cc", "-O2", "-w", "-DSAFETY", "-DCOLLAPSE", "-o", "pan", "pan.c")
        said = run("./pan", "-m100000", "-w23")
    errors, states = ERRORS.search(said), STATES.search(said)
    if errors is None or states is None or "max search depth too small" in said:
        raise SystemExit(f"{model.name}: the search did not end:\n{said}")
    return int(states.group(1)), int(errors.group(1))


def check(name: str, defines: list[str]) -> bool:
    model = HERE / f"{name}.pml"
    states, errors = explore(model, defines)
    good = errors == 0
    print(f"{name}: {states} states, {'holds' if good else 'DOES NOT HOLD'}", flush=True)
    for seed in range(1, MODELS[name] + 1):
        states, errors = explore(model, [*defines, f"-DSEED={seed}"])
        good &= errors != 0
        found = f"found within {states} states" if errors else f"NOT FOUND in {states} states"
        print(f"{name}: seeded fault {seed} {found}", flush=True)
    return good


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(MODELS))
    parser.add_argument("--kills", type=int, help="how many processes may be killed (default: the model's)")
    arguments = parser.parse_args()
    for name in arguments.models:
        if name not in MODELS:
            parser.error(f"no model {name!r}; there are {', '.join(MODELS)}")
    defines = [] if arguments.kills is None else [f"-DKILLS={arguments.kills}"]
    results = [check(name, defines) for name in arguments.models or MODELS]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())

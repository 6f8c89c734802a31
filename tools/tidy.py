"""Run clang-tidy over the core and the examples; weekly over the benchmarks, and compile each source alone.

python tools/tidy.py BUILD_DIR      (a folder configured with FORKLIFT_UNITY=ON, with compile_commands.json)
python tools/tidy.py BUILD_DIR --weekly

clang-tidy reads what the build compiles at once, so each header once for many sources: all of a room, where
the folder was configured with a large FORKLIFT_UNITY_BATCH. It gives the compiler's own warnings, too: what
it reads is clean with Clang. With --weekly it reads the benchmarks, and the build's compiler reads each
source of the core by itself (-fsyntax-only), which tells whether it includes what it uses.

A file is checked again when the file itself, any header in include/ or src/, .clang-tidy, this script or
clang-tidy has changed. .cache/tidy remembers which files were clean.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache" / "tidy"
CHECKED = ("src", "examples")
WEEKLY = ("bench",)
# Of the libraries' targets, where the sources that are compiled together are.
UNITY = ("CMakeFiles/forklift.dir/Unity", "CMakeFiles/forklift_mpi.dir/Unity")
INCLUDED = re.compile(r'^#include "(.+\.cpp)"$', re.MULTILINE)


@dataclass(frozen=True)
class Check:
    """A command that says nothing about a clean file, and what its outcome depends on beside all headers."""

    name: str
    command: list[str]
    folder: Path
    sources: list[Path] = field(default_factory=list)

    def key(self, common: str) -> str:
        digest = hashlib.sha256(f"{common}{self.command}".encode())
        for source in self.sources:
            digest.update(source.read_bytes())
        return digest.hexdigest()


def find_clang_tidy() -> str:
    found = subprocess.run(
        [ROOT / "tools" / "find_clang_tidy.sh"], capture_output=True, text=True, check=False
    ).stdout.strip()
    if not found:
        sys.exit("tidy: no clang-tidy here; run tools/setup.sh lint")
    return found


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def checks_of(program: str, build: Path, weekly: bool) -> list[Check]:
    """What is to be run; of clang-tidy's the long ones first."""
    tidy = [program, "--quiet", "-p", str(build), "--extra-arg=-Wno-unknown-warning-option"]
    folders = WEEKLY if weekly else CHECKED
    rooms: list[Check] = []
    programs: list[Check] = []
    alone: list[Check] = []
    for entry in json.loads((build / "compile_commands.json").read_text()):
        file, folder = Path(entry["file"]).resolve(), Path(entry["directory"])
        if file.parent in [build / folder for folder in UNITY]:
            sources = [Path(name) for name in INCLUDED.findall(file.read_text())]
            name = f"{file.name}: {', '.join(map(relative, sources))}"
            rooms.append(Check(name, [*tidy, str(file)], folder, [file, *sources]))
            flags = shlex.split(entry["command"])
            flags = flags[: flags.index("-o")]
            for source in sources:
                command = [*flags, "-fsyntax-only", str(source)]
                alone.append(Check(f"{relative(source)} by itself", command, folder, [source]))
        elif file.is_relative_to(ROOT) and file.relative_to(ROOT).parts[0] in folders:
            programs.append(Check(relative(file), [*tidy, str(file)], folder, [file]))
    if not alone:
        sys.exit(
            f"tidy: {build} has no sources that are compiled together: configure it with FORKLIFT_UNITY=ON"
        )
    return programs + alone if weekly else rooms + programs


def common_key(program: str) -> str:
    digest = hashlib.sha256(subprocess.run([program, "--version"], capture_output=True, check=True).stdout)
    headers = sorted((ROOT / "include").rglob("*.h")) + sorted((ROOT / "src").rglob("*.h"))
    for path in [ROOT / ".clang-tidy", Path(__file__), *headers]:
        digest.update(relative(path).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def run(check: Check, common: str) -> tuple[Check, str, float]:
    """(the check, its messages or "" if all is clean, the seconds that it took)"""
    clean = CACHE / check.key(common)
    if clean.exists():
        return check, "", 0.0
    start = time.monotonic()
    done = subprocess.run(check.command, cwd=check.folder, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - start
    if done.returncode == 0:
        clean.touch()
        return check, "", seconds
    return check, done.stdout + done.stderr, seconds


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("build", type=Path)
    parser.add_argument("--weekly", action="store_true")
    options = parser.parse_args()
    program = find_clang_tidy()
    checks = checks_of(program, options.build.resolve(), options.weekly)
    CACHE.mkdir(parents=True, exist_ok=True)
    common = common_key(program)
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for check, text, seconds in pool.map(lambda check: run(check, common), checks):
            if text:
                bad += 1
                print(f"--- {check.name} ({seconds:.1f} s)\n{text}")
    if bad:
        print(f"tidy: {bad} of {len(checks)} checks have complaints")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

"""Run clang-tidy over the changed files of the core, the benchmarks and the examples, in parallel.

python tools/tidy.py BUILD_DIR      (a configured build folder with compile_commands.json)

A file is checked again when the file itself, any header in include/ or src/, .clang-tidy, this script or
clang-tidy has changed. .cache/tidy remembers which files were clean.
"""

from __future__ import annotations

import concurrent.futures
import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache" / "tidy"
CHECKED = ("src", "bench", "examples")


def find_clang_tidy() -> str:
    found = subprocess.run(
        [ROOT / "tools" / "find_clang_tidy.sh"], capture_output=True, text=True, check=False
    ).stdout.strip()
    if not found:
        sys.exit("tidy: no clang-tidy here; run tools/setup.sh lint")
    return found


def files_to_check(build: Path) -> list[Path]:
    commands = json.loads((build / "compile_commands.json").read_text())
    files = {Path(command["file"]).resolve() for command in commands}
    return sorted(f for f in files if f.is_relative_to(ROOT) and f.relative_to(ROOT).parts[0] in CHECKED)


def common_key(program: str) -> str:
    digest = hashlib.sha256(subprocess.run([program, "--version"], capture_output=True, check=True).stdout)
    headers = sorted((ROOT / "include").rglob("*.h")) + sorted((ROOT / "src").rglob("*.h"))
    for path in [ROOT / ".clang-tidy", Path(__file__), *headers]:
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def check(program: str, build: Path, path: Path, common: str) -> tuple[Path, str, float]:
    """(the file, clang-tidy's messages about it or "" if it is clean, the seconds that the check took)"""
    key = hashlib.sha256(common.encode() + str(path).encode() + path.read_bytes()).hexdigest()
    if (CACHE / key).exists():
        return path, "", 0.0
    start = time.monotonic()
    run = subprocess.run(
        [program, "--quiet", "-p", str(build), "--extra-arg=-Wno-unknown-warning-option", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    seconds = time.monotonic() - start
    if run.returncode == 0:
        (CACHE / key).touch()
        return path, "", seconds
    return path, run.stdout + run.stderr, seconds


def main() -> int:
    build = Path(sys.argv[1]).resolve()
    program = find_clang_tidy()
    files = files_to_check(build)
    CACHE.mkdir(parents=True, exist_ok=True)
    common = common_key(program)
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for path, text, seconds in pool.map(lambda f: check(program, build, f, common), files):
            if text:
                bad += 1
                print(f"--- {path.relative_to(ROOT)} ({seconds:.1f} s)\n{text}")
    if bad:
        print(f"tidy: {bad} of {len(files)} files have complaints")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Lists which of the Python module's functions run in most programs, for the linker to lay them together.

    tools/import_order.py [FOLDER]      # builds there (build/order), and writes bindings/import_order.txt

The kernel maps 16 pages around each page of code that is first used. Where the code of an import lies all
over the file, a process that imports the module has a third of the file among its resident memory.
bindings/CMakeLists.txt has each function compiled into a section of its own, and the linker place those that
the list names beside each other.

Run it when much of what an import, a queue or the start of a process runs has changed, and say in the commit
what the row `memory` of the benchmark became. A name that no longer exists does nothing. Needs valgrind.
"""

from __future__ import annotations

import argparse
import bisect
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "bindings" / "import_order.txt"

# What is in almost every program that uses Forklift. Run under valgrind, with the processes that it starts.
PROGRAM = """
import forklift.multiprocessing as mp

def child(queue, lock):
    with lock:
        queue.put({"a": [1, 2.5, "b"]})

if __name__ == "__main__":
    for method in ("fork", "spawn"):
        context = mp.get_context(method)
        queue, lock = context.Queue(), context.Lock()
        process = context.Process(target=child, args=(queue, lock))
        process.start()
        queue.get(timeout=100)
        process.join()
"""

_SECTION = re.compile(r"^ (\.text\.\S+)(?:\s+0x([0-9a-f]+)\s+0x([0-9a-f]+)\s.*)?$")
_CONTINUED = re.compile(r"^ {16}0x([0-9a-f]+)\s+0x([0-9a-f]+)\s")


def sections(link_map: Iterable[str]) -> list[tuple[int, int, str]]:
    """The address, size and name of each function's section that a linker's map lists, by address."""
    found = []
    name = ""
    for line in link_map:
        section = _SECTION.match(line)
        if section:
            name = section[1]
        # A long name has a line to itself.
        place = _CONTINUED.match(line) if name and not section else None
        if section and section[2] is not None:
            found.append((int(section[2], 16), int(section[3], 16), name))
        elif place:
            found.append((int(place[1], 16), int(place[2], 16), name))
        if place or not section:
            name = ""
    # What the linker has dropped is at 0.
    return sorted(each for each in found if each[0] and each[1])


def executed(profile: Iterable[str], module: str) -> set[int]:
    """The addresses of instructions that ran in a module, of what `callgrind --dump-instr=yes` wrote."""
    addresses = set()
    inside = False
    for line in profile:
        if line.startswith("ob="):
            inside = module in line
        elif inside and line.startswith("0x"):
            addresses.add(int(line.split(" ", 1)[0], 16))
    return addresses


def names_at(addresses: Iterable[int], listed: list[tuple[int, int, str]]) -> set[str]:
    """The names of the sections in which these addresses lie."""
    starts = [start for start, _, _ in listed]
    found = set()
    for address in addresses:
        index = bisect.bisect_right(starts, address) - 1
        if index >= 0 and address < listed[index][0] + listed[index][1]:
            found.add(listed[index][2])
    return found


def _build(folder: Path) -> Path:
    """Build the module and its linker's map. Returns the folder of the package."""
    package = folder / "package" / "forklift"
    environment = {**os.environ, "LDFLAGS": f"-Wl,-Map={folder / 'module.map'}"}
    configure = ["cmake", "-S", str(ROOT), "-B", str(folder), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release"]
    configure += [f"-DPython_EXECUTABLE={sys.executable}", "-DFORKLIFT_BUILD_PYTHON=ON", "-DSKBUILD=2"]
    configure += ["-DFORKLIFT_BUILD_TESTS=OFF", "-DFORKLIFT_INSTALL=OFF"]
    # Valgrind finds the place in the file of code in the section .text only.
    configure += ["-DFORKLIFT_IMPORT_ORDER=OFF"]
    subprocess.run(configure, check=True, env=environment, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", str(folder), "--target", "_core", "forklift-shm-manager"], check=True)
    shutil.copytree(ROOT / "python" / "forklift", package, dirs_exist_ok=True)
    for module in (folder / "bindings").glob("_core.*.so"):
        shutil.copy(module, package)
    return package.parent


def _profiles(folder: Path, package: Path) -> Iterable[Path]:
    program = folder / "program.py"
    program.write_text(PROGRAM)
    for old in folder.glob("callgrind.*"):
        old.unlink()
    valgrind = ["valgrind", "--quiet", "--tool=callgrind", "--dump-instr=yes", "--trace-children=yes"]
    valgrind += ["--compress-strings=no", "--compress-pos=no"]
    valgrind += [f"--callgrind-out-file={folder}/callgrind.%p"]
    environment = {**os.environ, "PYTHONPATH": str(package)}
    subprocess.run([*valgrind, sys.executable, str(program)], check=True, env=environment, timeout=500)
    return folder.glob("callgrind.*")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "build" / "order")
    folder: Path = parser.parse_args().folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    package = _build(folder)
    with (folder / "module.map").open() as link_map:
        listed = sections(link_map)
    names: set[str] = set()
    for each in _profiles(folder, package):
        with each.open(errors="replace") as profile:
            names |= names_at(executed(profile, "/_core."), listed)
    LIST.write_text("".join(f"{name}\n" for name in sorted(names)))
    together = sum(size for _, size, name in listed if name in names)
    everything = sum(size for _, size, _ in listed)
    print(f"{len(names)} of {len(listed)} sections, {together >> 10} of {everything >> 10} KiB")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Compiles every public header and the examples with each installed compiler and standard.

    tools/check_compilers.py             # prints what failed, and which compilers are not installed

It builds nothing (-fsyntax-only). `make compilers` calls it. For each of g++ and clang++ it tries
C++20, C++23, and C++26 if the compiler knows it: all headers in one file, with exceptions and without; and
with clang++ each example in C++20 (the build compiles them with g++). With libc++ it compiles all headers in
one file, and where that fails, each by itself: headers that need <stop_token> or std::atomic_ref, which only
recent versions of libc++ have, do not fail but are counted.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INCLUDE = ROOT / "include"
HEADERS = sorted((INCLUDE / "forklift").glob("**/*.h"))
EXAMPLES = sorted((ROOT / "examples").glob("*/*.cpp"))
# Names of each compiler in the order of preference. The first that is installed is used.
COMPILERS = (
    ("g++",),
    ("clang++-14", "clang++-15", "clang++-16", "clang++-17", "clang++-18", "clang++"),
    ("clang++-22", "clang++-21", "clang++-20"),
)
STANDARDS = (("-std=c++20",), ("-std=c++23", "-std=c++2b"), ("-std=c++26", "-std=c++2c"))
FLAGS = ("-fsyntax-only", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'include'}")
# Asio, which one header includes, wants to be told.
NO_EXCEPTIONS = ("-fno-exceptions", "-DASIO_NO_EXCEPTIONS")
# Errors that mean that the installed libc++ lacks something.
LACKING = ("'stop_token' file not found", "no template named 'atomic_ref'", "no type named 'stop_token'")


def compile_text(compiler: str, flags: tuple[str, ...], text: str) -> str:
    """The compiler's messages; empty if the text compiles without any."""
    done = subprocess.run(
        [compiler, *flags, "-x", "c++", "-"], input=text, capture_output=True, text=True, check=False
    )
    if done.returncode == 0 and not done.stderr:
        return ""
    return done.stderr or f"exit code {done.returncode}"


def works(compiler: str, *flags: str) -> bool:
    return compile_text(compiler, ("-fsyntax-only", *flags), "#include <vector>\n") == ""


def jobs_of(compiler: str) -> list[tuple[str, str, tuple[str, ...], str]]:
    """(name, compiler, flags, text) for each file to compile."""
    every = "".join(f'#include "{header.relative_to(INCLUDE)}"\n' for header in HEADERS)
    jobs: list[tuple[str, str, tuple[str, ...], str]] = []
    for spellings in STANDARDS:
        standard = next((flag for flag in spellings if works(compiler, flag)), None)
        if standard is None:
            continue
        where = f"{compiler} {standard}"
        flags = (*FLAGS, standard)
        jobs.append((f"{where}: all headers", compiler, flags, every))
        jobs.append((f"{where} -fno-exceptions: all headers", compiler, (*flags, *NO_EXCEPTIONS), every))
        if spellings is STANDARDS[0] and compiler.startswith("clang"):
            jobs += [
                (f"{where}: {file.relative_to(ROOT)}", compiler, flags, f'#include "{file}"\n')
                for file in EXAMPLES
            ]
    return jobs


def libcxx_jobs(compiler: str) -> list[tuple[str, str, tuple[str, ...], str]]:
    flags = (*FLAGS, "-std=c++20", "-stdlib=libc++")
    every = "".join(f'#include "{header.relative_to(INCLUDE)}"\n' for header in HEADERS)
    if compile_text(compiler, flags, every) == "":
        return [(f"{compiler} libc++: all headers", compiler, flags, every)]
    return [
        (f"{compiler} libc++: {header.name}", compiler, flags, f'#include "{header.relative_to(INCLUDE)}"\n')
        for header in HEADERS
    ]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    jobs: list[tuple[str, str, tuple[str, ...], str]] = []
    for names in COMPILERS:
        compiler = next((name for name in names if shutil.which(name)), None)
        if compiler is None:
            print(f"not here, and so not tried: {names[0]}")
            continue
        jobs += jobs_of(compiler)
        if compiler.startswith("clang"):
            if works(compiler, "-stdlib=libc++"):
                jobs += libcxx_jobs(compiler)
            else:
                print(f"not here, and so not tried: {compiler} with libc++")

    def run(job: tuple[str, str, tuple[str, ...], str]) -> str:
        return compile_text(*job[1:])

    failed = lacking = 0
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        os.chdir(folder)
        for job, said in zip(jobs, pool.map(run, jobs), strict=True):
            if not said:
                continue
            if "libc++" in job[0] and any(missing in said for missing in LACKING):
                lacking += 1
                continue
            failed += 1
            print(f"--- {job[0]}\n{said}")
    print(
        f"{len(jobs) - failed - lacking} of {len(jobs)} compile, "
        f"{lacking} lack parts of libc++, {failed} failed"
    )
    return 1 if failed or not jobs else 0


if __name__ == "__main__":
    sys.exit(main())

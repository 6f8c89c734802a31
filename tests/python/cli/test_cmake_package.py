"""The wheel carries the C++ library: programs are built against it by find_package, without Python."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import forklift
import pytest

ROOT = Path(__file__).resolve().parents[3]


def installed(folder: str) -> set[str]:
    """The files of a part of the C++ library that the wheel installed."""
    cpp = Path(forklift.get_cmake_dir()).parents[2]
    return {path.name for path in (cpp / folder).rglob("*") if path.is_file()}


def test_the_folder_is_said_in_both_ways() -> None:
    said = subprocess.run(
        [sys.executable, "-m", "forklift", "--cmake-dir"], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert said == forklift.get_cmake_dir()
    assert (Path(said) / "forkliftConfig.cmake").is_file()


def test_everything_is_there() -> None:
    headers = (ROOT / "include" / "forklift").glob("**/*.h")
    # forklift::mpi is a library of its own, which no wheel has.
    assert installed("include") == {path.name for path in headers if path.parent.name != "mpi"}
    assert {"libforklift.a", "forklift.pc", "forkliftConfigVersion.cmake"} <= installed("lib")


def test_a_missing_library_is_an_error_that_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("forklift.cli.cmake.__file__", str(tmp_path / "cmake.py"))
    with pytest.raises(FileNotFoundError, match="carries no C\\+\\+ library"):
        forklift.get_cmake_dir()


@pytest.mark.parametrize("compiler", ["g++-12", "clang++-14"])
def test_a_program_is_built_against_it(compiler: str, tmp_path: Path) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"there is no {compiler} here")
    cmake = shutil.which("cmake") or str(Path(sys.executable).parent / "cmake")
    # No Python among what the build can find, whatever this one was started from.
    environment = {"PATH": os.defpath + ":/usr/local/bin", "HOME": str(tmp_path)}
    subprocess.run(
        [
            *(cmake, "-S", str(ROOT / "tests" / "package"), "-B", str(tmp_path)),
            *("-D", f"CMAKE_CXX_COMPILER={shutil.which(compiler)}", "-D", "LINKAGE=static"),
            *("-D", f"CMAKE_PREFIX_PATH={forklift.get_cmake_dir()}", "-D", "PROGRAMS=tutorial/first"),
        ],
        check=True,
        env=environment,
    )
    subprocess.run([cmake, "--build", str(tmp_path)], check=True, env=environment)
    output = subprocess.run([tmp_path / "first"], check=True, capture_output=True, text=True).stdout
    assert output == "the sum is 14.393\n"

"""The C++ library that this package carries: headers, static library, CMake package, pkg-config file.

    cmake -S . -B build -D forklift_DIR=$(python -m forklift --cmake-dir)

and in CMakeLists.txt ``find_package(forklift 0.1 REQUIRED)`` and ``forklift::forklift``, as with an installed
library. The programs built with it know no Python; a queue between them and this package's processes is one
and the same, since both are of one version.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["get_cmake_dir"]


def get_cmake_dir() -> str:
    """The folder of ``forkliftConfig.cmake``: a value for ``forklift_DIR`` or ``CMAKE_PREFIX_PATH``."""
    folder = Path(__file__).parent.parent / "cpp" / "lib" / "cmake" / "forklift"
    if not (folder / "forkliftConfig.cmake").is_file():
        raise FileNotFoundError(f"this installation of forklift carries no C++ library: {folder} is missing")
    return str(folder)

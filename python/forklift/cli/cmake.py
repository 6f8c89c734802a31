"""The C++ library that this package carries: headers, static library, CMake package, pkg-config file.

    cmake -S . -B build -D forklift_DIR=$(python -m forklift --cmake-dir)

CMakeLists.txt then says ``find_package(forklift 0.1 REQUIRED)`` and links ``forklift::forklift``, as with an
installed library. Programs built this way need no Python. They can share queues with this package's
processes, since both have the same version of the library.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["get_cmake_dir"]


def get_cmake_dir() -> str:
    """The folder of ``forkliftConfig.cmake``: a value for ``forklift_DIR`` or ``CMAKE_PREFIX_PATH``.

    FileNotFoundError if this installation has no C++ library.
    """
    folder = Path(__file__).parent.parent / "cpp" / "lib" / "cmake" / "forklift"
    if not (folder / "forkliftConfig.cmake").is_file():
        raise FileNotFoundError(f"this installation of forklift carries no C++ library: {folder} is missing")
    return str(folder)

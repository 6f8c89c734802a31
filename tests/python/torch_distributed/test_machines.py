"""Collectives between machines: parts of one machine's ranks count as machines, and MPI goes between them."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import forklift.multiprocessing as mp
import pytest

torch = pytest.importorskip("torch")
import torch_distributed_targets as targets  # noqa: E402

VARIABLE = "FORKLIFT_TORCH_RANKS_PER_MACHINE"


@pytest.mark.parametrize(
    ("ranks", "on_each"),
    [(3, 2), *(pytest.param(*each, marks=pytest.mark.weekly) for each in ((4, 2), (3, 1)))],
)
def test_collectives_in_two_steps(tmp_path: Path, ranks: int, on_each: int) -> None:
    """Ranks on two machines, of which one may have a rank less, and on three."""
    if importlib.util.find_spec("mpi4py") is None:
        pytest.skip("mpi4py is not installed")
    if shutil.which("mpirun") is None:
        pytest.skip("there is no mpirun")
    command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(ranks), sys.executable]
    command += ["-W", "ignore", targets.__file__, str(tmp_path / "store")]
    environment = {**os.environ, VARIABLE: str(on_each), "OMP_NUM_THREADS": "1"}
    pipe = subprocess.PIPE
    run = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment, cwd=tmp_path)
    try:
        said, complaints = run.communicate(timeout=90)
    finally:
        run.terminate()  # mpirun ends its ranks then
        run.wait()
    assert run.returncode == 0, complaints
    assert said.count("all right") == ranks, complaints
    assert os.listdir("/dev/shm") == []


def test_several_machines_need_mpi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "1")
    store = str(tmp_path / "store")
    mp.start_processes(targets.without_mpi, (2, store), nprocs=2, start_method="fork")

"""The backend "forklift" of torch.distributed: values, order, errors, deaths, training, who starts ranks."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import forklift.multiprocessing as mp
import pytest

pytest.importorskip("torch._dynamo")  # DDP imports it: here once, instead of in each forked rank
import torch_distributed_targets as targets


@pytest.fixture
def store(tmp_path: Path) -> str:
    return str(tmp_path / "store")


def _run(target: Any, size: int, *arguments: Any, method: str = "fork") -> None:
    mp.start_processes(target, (size, *arguments), nprocs=size, start_method=method)


@pytest.mark.parametrize("size", [2, 3, 4])
def test_values_are_those_of_the_reference_and_of_gloo(size: int, store: str) -> None:
    _run(targets.values, size, store)


@pytest.mark.parametrize("size", [2, 3])
def test_order_messages_and_mistakes(size: int, store: str) -> None:
    _run(targets.calls, size, store)


def test_other_devices_have_a_backend_of_their_own(store: str) -> None:
    _run(targets.another_device, 2, store)


def test_a_killed_rank_is_an_error_at_the_others_within_seconds(store: str) -> None:
    told = mp.get_context("fork").Queue()
    ranks = mp.start_processes(
        targets.lose_a_rank, (3, store, told), nprocs=3, join=False, start_method="fork"
    )
    assert ranks is not None
    times = dict(told.get(timeout=90) for _ in range(3))
    for process in ranks.processes:
        process.join(60)
    assert [process.exitcode for process in ranks.processes] == [0, -9, 0]
    assert max(times[0], times[2]) - times[1] < 5
    assert os.listdir("/dev/shm") == []


def test_training_is_that_of_gloo(store: str) -> None:
    _run(targets.train, 2, store)


def test_a_death_in_training(store: str) -> None:
    told = mp.get_context("fork").Queue()
    ranks = mp.start_processes(
        targets.train_and_die, (2, store, told), nprocs=2, join=False, start_method="fork"
    )
    assert ranks is not None
    assert told.get(timeout=90) == 0
    for process in ranks.processes:
        process.join(60)


def test_ranks_of_torchs_spawn(store: str) -> None:
    """They know nothing of each other, and of no domain, but torch's store."""
    import torch.multiprocessing as tmp

    tmp.spawn(targets.train, (2, store), nprocs=2)
    assert os.listdir("/dev/shm") == []


TORCHRUN = """
    import os, sys
    import torch
    import torch.distributed as dist
    import forklift.adapters.torch.distributed

    dist.init_process_group("forklift")
    x = torch.full((100_000,), float(dist.get_rank()))
    for _ in range(3):
        dist.all_reduce(x)
    network = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 1))
    network(torch.ones(2, 3) * dist.get_rank()).sum().backward()
    told = [None, None]
    dist.all_gather_object(told, network.module.weight.grad.tolist())
    assert told[0] == told[1] == [[1.0] * 3], told
    assert x[0] == 4, x
    dist.barrier()
    print("trained", flush=True)
    if len(sys.argv) > 1 and dist.get_rank() == 0:
        os.abort()
    if len(sys.argv) > 1:
        dist.all_reduce(x)
    dist.destroy_process_group()
"""


@pytest.mark.parametrize("abort", [False, pytest.param(True, marks=pytest.mark.weekly)])
def test_ranks_of_torchrun(abort: bool, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(TORCHRUN))
    command = [sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", "2", str(script), *(["abort"] if abort else [])]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TORCHELASTIC_ERROR_FILE": ""}
    run = subprocess.run(
        command, capture_output=True, text=True, timeout=100, env=environment, cwd=tmp_path, check=False
    )
    assert run.stdout.count("trained") == 2, run.stderr
    assert (run.returncode != 0) == abort, run.stderr
    if abort:
        assert "SIGABRT" in run.stderr or "-6" in run.stderr, run.stderr
    assert os.listdir("/dev/shm") == []

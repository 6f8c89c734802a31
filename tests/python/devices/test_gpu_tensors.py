"""Tensors on a GPU between Python processes, on the fake driver (tests/fake_cuda)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import fake_cuda
import pytest

HERE = Path(__file__).resolve().parent
METHODS = ("spawn", "forkserver")


def run(program: str, *arguments: str, file: str = "gpu_programs.py", **settings: object) -> list[str]:
    """What one of the programs in a file here prints."""
    return fake_cuda.run(HERE / file, program, *arguments, **fake_cuda.environment(**settings))


@pytest.mark.parametrize("method", METHODS)
def test_the_producer_may_end(method: str) -> None:
    assert run("producer_ends", method) == ["0 GPU [0.0, 1.0, 2.0]", "0 GPU [0.0, 1.0, 2.0]"]


@pytest.mark.parametrize("method", METHODS)
def test_a_received_tensor_is_passed_on(method: str) -> None:
    assert run("passed_on", method) == ["True [7.0, 7.0, 7.0]", "written there: [9.0, 9.0, 9.0]"]


def test_put_and_get_in_one_process() -> None:
    assert run("one_process") == ["[3.0, 3.0]"]


@pytest.mark.parametrize("method", METHODS)
def test_every_way_to_another_process(method: str) -> None:
    assert run("every_way", method) == [
        "Queue GPU [1.0, 2.0]",
        "SimpleQueue GPU [1.0, 2.0]",
        "Pipe GPU [1.0, 2.0]",
        "Broadcast GPU [1.0, 2.0]",
        "argument GPU [1.0, 2.0]",
        "a dict in a list GPU [1.0, 2.0]",
        "an object GPU [1.0, 2.0]",
    ]


@pytest.mark.parametrize("method", METHODS)
def test_a_pool_computes_there(method: str) -> None:
    assert run("pool", method) == ["[0.0, 2.0, 4.0, 6.0]", "['GPU']", "memory goes back: True"]


@pytest.mark.parametrize("method", METHODS)
def test_ranks_share_them(method: str) -> None:
    assert run("ranks", method) == ["[0.0, 1.0, 2.0]"]


def test_a_forked_child_is_told() -> None:
    said = run("forked")
    assert said[0].startswith("BrokenByForkError: ")
    assert "start processes by spawn or forkserver" in said[0]
    assert said[1:] == ["CPU", "parent: [1.0]"]


def test_events_replace_the_wait() -> None:
    assert run("events", lazy=1, polls=0) == ["False", "[4.0, 4.0]", "True"]


def test_arrays_of_other_frameworks_share_their_memory() -> None:
    """An object with __dlpack__ on a GPU arrives as one of its own package, over the same memory."""
    assert run("other_framework") == ["Array of 3 on device 2", "same memory: True"]


def test_exchange_by_dlpack() -> None:
    assert run("dlpack") == [
        "(2, 0)",
        "BufferError: this forklift.Tensor lies on GPU, and is handed out there, or as a copy for the CPU",
        "[1.0, 2.0]",
        "BufferError: stream 0 of a DLPack exchange is ambiguous: 1 is the default stream, 2 that of each "
        "thread",
        "True",
    ]


def test_what_is_refused() -> None:
    said = run("refused", bytes=1 << 30)
    assert said == [
        "ValueError: no device 'GPU:3' here; device_target may be one of: CPU, GPU",
        "ValueError: device_handover='never': one of 'event', 'wait'",
        "ValueError: CPU is no GPU",
        "NotImplementedError",
        "RefusedError or ValueError: add: a tensor on GPU and one on CPU; copy one of them with to()",
        "NoSpaceError",
        "TypeError",
    ]


def test_a_driver_that_fails_is_a_device_error() -> None:
    said = run("failing", fail="cuMemCreate:1:999")
    assert said[0].startswith("DeviceError: device failed: cuMemCreate: CUDA_ERROR_UNKNOWN")
    assert said[1] == "[1.0]"


@pytest.mark.parametrize("method", METHODS)
def test_a_producer_that_ends_copies_its_librarys_memory(method: str) -> None:
    """Its DLPack deleter runs Python code, which the end of the interpreter must not meet."""
    assert run("child", method, file="exit_programs.py") == ["0 [3.0, 4.0]"]


def test_a_program_ends_while_its_queue_holds_a_librarys_memory() -> None:
    assert run("main_program", file="exit_programs.py") == ["the end"]


def test_without_a_driver() -> None:
    done = subprocess.run(
        [sys.executable, HERE / "gpu_programs.py", "absent"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={**os.environ, "FORKLIFT_LIBCUDA": "/nowhere/libcuda.so.1", "FORKLIFT_DEVICE_TARGET": "GPU"},
    )
    assert done.stdout.splitlines() == [
        "['CPU']",
        "NotFoundError: not found: no device 'GPU' here; there are: CPU",
    ]


@pytest.mark.parametrize("program", ["torch_forward.py", "torch_events.py"])
def test_programs_of_the_documents(program: str) -> None:
    """The examples print the same with their tensors on a GPU."""
    examples = Path(__file__).resolve().parents[3] / "examples" / "seeds"
    said = []
    for target in ("CPU", "GPU"):
        done = subprocess.run(
            [sys.executable, examples / program],
            capture_output=True,
            text=True,
            timeout=90,
            check=True,
            env={**fake_cuda.environment(), "FORKLIFT_DEVICE_TARGET": target},
        )
        said.append(done.stdout)
    assert said[0] == said[1]
    assert said[0]

"""torch's own tensors between processes: the same programs on the CPU, and on a GPU where one is tested.

torch has no CUDA on the fake driver, so those on a GPU need FORKLIFT_TEST_REAL_CUDA=1 and a torch with CUDA.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import fake_cuda
import pytest

torch = pytest.importorskip("torch")

HERE = Path(__file__).resolve().parent
REAL = fake_cuda.is_real() and torch.version.cuda is not None
WHY = "torch has no CUDA on the fake driver: FORKLIFT_TEST_REAL_CUDA=1 where there is a GPU"
on_a_gpu = pytest.mark.skipif(not REAL, reason=WHY)
# The CPU's are tested elsewhere, and some of them here, so that the programs are known to run.
on_each_device = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=on_a_gpu)])
by_each_method = pytest.mark.parametrize("method", ["spawn", "forkserver"])
on_the_gpu = pytest.mark.parametrize("device", [pytest.param("cuda", marks=on_a_gpu)])


def run(
    program: str, *arguments: str, device: str, file: str = "torch_programs.py", **more: str
) -> list[str]:
    return fake_cuda.run(HERE / file, program, *arguments, **{**os.environ, **more, "DEVICE": device})


def run_on_gpu(program: str, *arguments: str, **more: str) -> list[str]:
    return run(program, *arguments, device="cuda", file="torch_gpu_programs.py", **more)


@on_each_device
@pytest.mark.parametrize("program", ["sender", pytest.param("middle", marks=pytest.mark.weekly)])
def test_programs_of_the_documents(program: str, device: str) -> None:
    expected = {
        "sender": [*(f"=== ITER {i} === [0.0, 1.0]" for i in range(10)), "0"],
        "middle": ["[[0.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0], [2.0, 2.0, 2.0, 2.0]]", "[3.0, 3.0]"],
    }
    assert run(program, device=device, file="torch_documents.py") == expected[program]


@on_the_gpu
@by_each_method
def test_the_producer_may_end(method: str, device: str) -> None:
    assert run("producer_ends", method, device=device) == ["after the end (0): [1.0, 2.0, 3.0]"]
    said = run("producer_of_an_opened_one_ends", method, device=device)
    assert said == ["of an opened one (0): [0.0, 2.0, 4.0]"]


@on_the_gpu
@by_each_method
def test_a_received_tensor_is_passed_on(method: str, device: str) -> None:
    assert run("passed_on", method, device=device) == ["passed on and written: [9.0, 9.0]"]


@on_the_gpu
def test_put_and_get_in_one_process(device: str) -> None:
    assert run("one_process", "spawn", device=device) == ["put and got here: [3.0, 3.0]"]


@on_each_device
def test_every_kind_of_tensor(device: str) -> None:
    assert set(run("every_kind", "spawn", device=device)) == {"same"}


@on_the_gpu
@by_each_method
def test_every_way_to_another_process(method: str, device: str) -> None:
    assert run("every_way", method, device=device) == [
        "argument True [1.0, 2.0]",
        "Queue True [1.0, 2.0]",
        "SimpleQueue True [1.0, 2.0]",
        "Pipe True [1.0, 2.0]",
        "a storage True [1.0, 2.0]",
        "a module True [4.0]",
        "one storage True [0.0, 0.0]",
        "written",
        "the module's parts: [1.0, 3.0, 3.0]",
    ]


@on_the_gpu
@by_each_method
def test_pools_and_ranks(method: str, device: str) -> None:
    assert run("pool", method, device=device) == ["[[0.0], [2.0], [4.0], [6.0]]"]
    assert run("ranks", method, device=device) == ["ranks: [0.0, 1.0, 2.0]"]


@on_the_gpu
def test_memory_goes_back(device: str) -> None:
    expected = [str(float(sum(range(300))))]
    if device == "cuda":
        expected.append("reserved at most 200 MB: True")
    assert run("many", "spawn", device=device) == expected


@on_the_gpu
def test_batches_of_a_loader(device: str) -> None:
    assert run("loader", "forkserver", device=device) == [f"{float(sum(range(64)))} True"]


@on_a_gpu
def test_what_any_stream_has_queued_is_done() -> None:
    assert run_on_gpu("streams", "spawn") == ["True"] * 5


@on_a_gpu
def test_torchs_events_travel() -> None:
    assert run_on_gpu("events", "spawn") == ["[4.0, 4.0, 4.0, 4.0] True", "0"]


@on_a_gpu
@by_each_method
def test_memory_of_a_killed_producer(method: str) -> None:
    assert run_on_gpu("producer_is_killed", method) == ["PeerDiedError"]


@on_a_gpu
def test_a_forked_child_is_told() -> None:
    assert run_on_gpu("forked") == ["BrokenByForkError"]


@on_a_gpu
def test_plain_tensors_take_the_short_way() -> None:
    """The keys by which they are known were put together without a GPU."""
    assert run_on_gpu("short_way") == ["True True", "placed"]


@on_a_gpu
def test_a_stream_may_be_destroyed_before_its_tensors() -> None:
    assert run_on_gpu("destroyed_stream", "spawn") == ["[1.0, 2.0]", "alive"]


@on_a_gpu
@by_each_method
def test_torch_allocates_from_forklift(method: str) -> None:
    assert run_on_gpu("arena", method) == [
        "after its death: [0.0, 1.0, 2.0, 3.0]",
        "in flight at its death: [2.0, 3.0]",
        "computes: True",
    ]


@on_a_gpu
@pytest.mark.parametrize("program", ["producer_ends", "passed_on", "one_process", "every_way", "pool"])
def test_expandable_segments(program: str) -> None:
    """torch's other way to allocate: virtual memory, of which several allocations may make one storage."""
    expandable = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    expected = run(program, "spawn", device="cuda")
    assert run(program, "spawn", device="cuda", **expandable) == expected


@on_a_gpu
@pytest.mark.parametrize("framework", ["cupy", "jax"])
def test_other_frameworks(framework: str) -> None:
    if importlib.util.find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed")
    expected = {
        "cupy": "cupy [1.0, 2.0, 3.0] [1.0, 2.0, 3.0] True",
        "jax": "ArrayImpl [1.0, 2.0, 3.0] gpu",
    }
    said = run_on_gpu(framework, "spawn", XLA_PYTHON_CLIENT_PREALLOCATE="false")
    assert said == [expected[framework]]

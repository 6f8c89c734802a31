"""Batches as pinned memory, and torch's allocator, on the fake CUDA driver. torch itself has no CUDA here."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import fake_cuda
import pytest

pytest.importorskip("torch")

# What the programs below share: the fake driver's own functions, by ctypes.
BEGIN = textwrap.dedent(
    """
    import ctypes, os, sys
    from ctypes import byref, c_size_t, c_ssize_t, c_ubyte, c_ulonglong, c_void_p
    import torch
    import forklift.adapters.torch
    from forklift import _core

    _core._torch.meet()

    cuda = ctypes.CDLL(os.environ["FORKLIFT_LIBCUDA"])
    NAMES = (
        "contexts allocations allocation_bytes handles physical physical_bytes reservations mappings"
        " ipc_opened streams events modules host_ranges host_bytes pending"
    ).split()

    def live():
        counts = (ctypes.c_long * len(NAMES))()
        cuda.fakeCudaLive(counts)
        return dict(zip(NAMES, counts))
    """
)

LOADER = """
from forklift.adapters.torch.loading import pinning

class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, index):
        return torch.full((50_000,), float(index)), {"name": "n", "label": torch.tensor([index])}

if __name__ == "__main__":
    loader = forklift.adapters.torch.DataLoader(
        Numbers(), batch_size=2, num_workers=2, multiprocessing_context="forkserver"
    )
    before = live()["host_bytes"]
    most = 0
    for number, batch in enumerate(loader):
        values, more = batch
        assert pinning.in_place(batch, 0) >= 1, number
        kept, ranges, nbytes, failed = _core._torch.pinned()
        assert failed == 0 and nbytes == live()["host_bytes"] >= values.nbytes
        assert values[0, 0] == 2 * number and values[1, -1] == 2 * number + 1
        most = max(most, kept)
    assert number == 19
    # Batches that are gone are given back some at a time, and their memory is used over and over.
    assert 2 <= most <= 24, most
    assert ranges <= 2 * most
    del batch, values, more
    assert pinning.collect() >= 1
    assert _core._torch.pinned()[0] == 0
    print("done")
"""

PIN = """
from forklift.adapters.torch.loading import pinning

private = torch.zeros(100_000)
assert pinning.in_place(private, 0) == 0 and live()["contexts"] == 0
shared = torch.zeros(100_000).share_memory_()
assert pinning.in_place([shared, {"x": (shared, "text")}, 3, b"bytes", private], 0) == 2
assert live()["host_ranges"] == 1 and 400_000 <= live()["host_bytes"] <= 409_600
assert pinning.in_place(shared[::2], 0) == 1
assert pinning.in_place(shared.to_sparse(), 0) == 0
assert pinning.in_place(torch.empty(0).share_memory_(), 0) == 0
assert pinning.in_place(shared, 5) == 0  # no such device
del shared
assert pinning.collect() == 1 and _core._torch.pinned()[0] == 0
print("done")
"""

ALLOCATE = """
library = ctypes.CDLL(_core.__file__)
library.forklift_cuda_alloc.restype = c_void_p
library.forklift_cuda_alloc.argtypes = [c_ssize_t, ctypes.c_int, c_void_p]
library.forklift_cuda_free.restype = None
library.forklift_cuda_free.argtypes = [c_void_p, c_ssize_t, ctypes.c_int, c_void_p]

SIZE = 1 << 20
memory = library.forklift_cuda_alloc(SIZE, 0, None)
assert memory and live()["physical_bytes"] >= SIZE
context = c_void_p()
assert cuda.cuDevicePrimaryCtxRetain(byref(context), 0) == 0 and cuda.cuCtxSetCurrent(context) == 0
host = (c_ubyte * SIZE)(*[5] * 10)
assert cuda.cuMemcpyHtoDAsync_v2(c_ulonglong(memory), host, c_size_t(SIZE), None) == 0
assert cuda.cuCtxSynchronize() == 0
read = (c_ubyte * 10)()
assert cuda.fakeCudaPeek(c_ulonglong(memory), read, c_size_t(10)) == 1 and list(read) == [5] * 10
other = library.forklift_cuda_alloc(SIZE, 0, None)
assert other and other != memory
library.forklift_cuda_free(memory, SIZE, 0, None)
assert library.forklift_cuda_alloc(SIZE, 0, None) == memory
library.forklift_cuda_free(memory, SIZE, 0, None)
library.forklift_cuda_free(other, SIZE, 0, None)
library.forklift_cuda_free(None, 0, 0, None)
assert live()["events"] == 0
assert library.forklift_cuda_alloc(0, 0, None) is None
assert library.forklift_cuda_alloc(SIZE, 3, None) is None
library.forklift_cuda_free(other, SIZE, 0, None)
print("done")
"""

WITHOUT = """
try:
    forklift.adapters.torch.use_arena()
except RuntimeError as error:
    print(error)
"""


def run(source: str, tmp_path: object, **settings: object) -> subprocess.CompletedProcess[str]:
    if fake_cuda.is_real():
        pytest.skip("not on a real driver: it counts what the fake one has")
    program = f"{tmp_path}/program.py"
    with open(program, "w") as file:
        file.write(BEGIN + source)
    return subprocess.run(
        [sys.executable, program],
        env=fake_cuda.environment(**settings),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("source", [PIN, LOADER], ids=["tensors", "loader"])
def test_memory_in_the_arena_is_pinned_where_it_lies(source: str, tmp_path: object) -> None:
    done = run(source, tmp_path)
    assert (done.returncode, done.stdout.strip()) == (0, "done"), done.stderr


def test_the_extension_exports_an_allocator_for_torch(tmp_path: object) -> None:
    done = run(ALLOCATE, tmp_path)
    assert (done.returncode, done.stdout.strip()) == (0, "done"), done.stderr
    assert "no device 'GPU:3' here" in done.stderr
    assert "comes back that Forklift has not lent" in done.stderr


def test_use_arena_says_why_it_cannot(tmp_path: object) -> None:
    import torch

    if torch.version.cuda is not None:
        pytest.skip("this torch has CUDA")
    done = run(WITHOUT, tmp_path)
    assert done.stdout.strip() == "use_arena(): this torch is built without CUDA", done.stderr


def test_use_arena_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch
    from forklift.adapters.torch import use_arena

    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    with pytest.raises(RuntimeError, match="before torch initialises CUDA"):
        use_arena()


def test_without_a_gpu_pin_memory_is_torchs_warning() -> None:
    if fake_cuda.is_real():
        pytest.skip("there is a GPU")
    import torch
    from forklift.adapters.torch import DataLoader

    numbers = torch.utils.data.TensorDataset(torch.arange(4.0))
    with pytest.warns(UserWarning, match="no accelerator is found"):
        batches = [
            each[0].tolist() for each in DataLoader(numbers, num_workers=1, pin_memory=True, batch_size=2)
        ]
    assert batches == [[0, 1], [2, 3]]

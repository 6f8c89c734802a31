"""Both sharing strategies: the same to the program, and what file_system adds: names that others can open."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import forklift.multiprocessing as fmp
import pytest
import support
import torch_targets
from forklift import _core
from forklift._core import _segments
from torch_support import DEADLINE, MIB, finish, is_held, proportional_memory, run, through, tmp, torch

pytestmark = pytest.mark.usefixtures("shm_manager")


@pytest.fixture
def named() -> Iterator[None]:
    fmp.set_sharing_strategy("file_system")
    yield
    fmp.set_sharing_strategy("file_descriptor")


def path_of(tensor: Any) -> Path:
    _, name, _ = tensor.untyped_storage()._share_filename_cpu_()
    return Path(_segments.folder() + name.decode())


@pytest.mark.usefixtures("strategy")
def test_both_sides_see_what_either_writes(ctx: Any) -> None:
    there, back, process = run(ctx, torch_targets.add_one)
    tensor = torch.arange(1_000.0)
    view = tensor[10:20]
    for times in (1, 2):
        there.put(tensor)
        assert back.get(timeout=DEADLINE) == "done"
        assert view.tolist() == [10.0 + i + times for i in range(10)]
    finish(there, back, process)


def test_one_storage_and_its_views(strategy: str) -> None:
    queue = fmp.SimpleQueue()
    tensor = torch.arange(60.0).reshape(3, 4, 5)
    queue.put([tensor, tensor[1:, ::2], {"storage": tensor.untyped_storage()}])
    whole, part, rest = queue.get()
    queue.close()
    assert whole.untyped_storage()._cdata == part.untyped_storage()._cdata == rest["storage"]._cdata
    assert torch.equal(part, tensor[1:, ::2])
    assert tensor.is_shared()
    assert is_held(tensor)
    assert _segments.stats()[0] == (1 if strategy == "file_system" else 0)


@pytest.mark.usefixtures("strategy")
def test_modules_and_shared_in_place() -> None:
    model = torch.nn.Linear(30, 20).share_memory()
    assert all(is_held(p) for p in model.parameters())
    queue = fmp.SimpleQueue()
    queue.put(model.state_dict())
    state = queue.get()
    queue.close()
    with torch.no_grad():
        state["weight"].fill_(3)
    assert bool((model.weight == 3).all())


@pytest.mark.usefixtures("strategy")
def test_the_sender_may_leave_at_once(ctx: Any) -> None:
    queue = ctx.SimpleQueue()
    process = ctx.Process(target=torch_targets.send_and_leave, args=(queue, 7))
    process.start()
    process.join(60)
    got = queue.get()
    assert bool((got == 7).all())
    queue.close()


@pytest.mark.usefixtures("named")  # which sets the default again
def test_a_strategy_that_changes(ctx: Any) -> None:
    there, back, process = run(ctx, torch_targets.echo)
    tensors = []
    for strategy in ("file_descriptor", "file_system", "file_descriptor"):
        fmp.set_sharing_strategy(strategy)
        tensors.append(torch.full((50,), float(len(tensors))))
        there.put(tensors)
        got = back.get(timeout=DEADLINE)
        assert [t[0].item() for t in got] == [0.0, 1.0, 2.0][: len(got)]
        assert [t.untyped_storage()._cdata for t in got] == [t.untyped_storage()._cdata for t in tensors]
        del got
    finish(there, back, process)


def test_the_strategy_is_torchs(named: None) -> None:
    assert tmp.get_sharing_strategy() == "file_system"
    tmp.set_sharing_strategy("file_descriptor")
    assert fmp.get_sharing_strategy() == "file_descriptor"
    with pytest.raises(AssertionError, match="invalid sharing strategy"):
        fmp.set_sharing_strategy("by pigeon")


def test_a_name_lives_as_long_as_its_users(named: None) -> None:
    queue = fmp.SimpleQueue()
    tensor = torch.arange(5.0)
    queue.put(tensor)
    path = path_of(tensor)
    assert path.read_bytes()[64:] == tensor.numpy().tobytes()
    del tensor
    gc.collect()
    assert path.exists()  # the message has it
    got = queue.get()
    queue.close()
    assert path.exists()
    del got
    gc.collect()
    # path_of() has told the name to whoever wants it, so the manager keeps it for a moment.
    support.until(lambda: not path.exists(), "the name gone", 3.0)


STRANGER = """
    import ast, sys, torch
    socket, name, size = ast.literal_eval(sys.argv[1])
    storage = torch.UntypedStorage._new_shared_filename_cpu(socket, name, size)
    tensor = torch.empty(0).set_(storage)
    print(tensor.tolist())
    tensor[0] = 42
    # torch registers what it makes with the first manager that it knows.
    torch.multiprocessing.set_sharing_strategy("file_system")
    own = torch.ones(3).share_memory_()
    assert own.is_shared()
    print(own.untyped_storage()._share_filename_cpu_()[1].decode())
"""


def test_torch_in_another_tree_opens_it_by_name(named: None) -> None:
    tensor = torch.arange(3.0).share_memory_()
    shared = tensor.untyped_storage()._share_filename_cpu_()
    for _ in range(2):  # torch removes the name of a file without references: ours has always one
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(STRANGER), repr(shared)],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
    values, own = done.stdout.split("\n")[:2]
    assert values == "[42.0, 1.0, 2.0]"
    support.until(lambda: not os.path.exists(f"/dev/shm{own}"), "torch's own file gone", 3.0)
    assert tensor[0] == 42
    assert path_of(tensor).exists()


@pytest.mark.usefixtures("named")
def test_a_killed_receiver_leaves_no_name(ctx: Any) -> None:
    there, back = ctx.Queue(), ctx.Queue()
    process = ctx.Process(target=torch_targets.killed_with, args=(there, back))
    process.start()
    tensor = torch.ones(1_000)
    there.put(tensor)
    path = path_of(tensor)
    assert back.get(timeout=60) == 1.0
    process.join(60)
    assert process.exitcode == -9
    del tensor
    gc.collect()
    support.until(lambda: not path.exists(), "the name gone", 3.0)
    there.close()
    back.close()


@pytest.mark.usefixtures("named")
def test_a_named_tensor_has_its_memory_once() -> None:
    through(fmp, [torch.ones(MIB)])
    gc.collect()
    tensors = [torch.full((4 * MIB,), float(i)) for i in range(4)]
    before = proportional_memory()
    through(fmp, tensors)
    assert proportional_memory() - before < 4 * 16 * MIB * 0.05 + MIB
    assert all(int(t[-1]) == i for i, t in enumerate(tensors))


# malloc takes every range from its own arenas: at any distance from a page's beginning.
FROM_ARENAS = """
import ctypes
assert ctypes.CDLL(None).mallopt(-3, 1 << 30) == 1  # M_MMAP_THRESHOLD
import gc
import forklift.multiprocessing as fmp
from torch_support import MIB, proportional_memory, through, torch
fmp.set_sharing_strategy("file_system")
through(fmp, [torch.ones(MIB)])
gc.collect()
tensors = [torch.full((4 * MIB + 100 * i,), float(i)) for i in range(4)]
assert any(t.data_ptr() % 4096 != 64 for t in tensors)
before = proportional_memory()
through(fmp, tensors)
print(proportional_memory() - before)
assert all(int(t[-1]) == i for i, t in enumerate(tensors))
"""


def test_so_has_one_whose_old_memory_cannot_be_overlaid() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FROM_ARENAS],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert int(done.stdout) < 4 * 16 * MIB * 0.05 + MIB


@pytest.mark.usefixtures("named")
def test_no_descriptor_for_each_tensor() -> None:
    queue = fmp.SimpleQueue()
    before = len(os.listdir("/proc/self/fd"))
    kept = [torch.zeros(10) for _ in range(50)]
    for tensor in kept:
        queue.put(tensor)
    assert len(os.listdir("/proc/self/fd")) == before
    assert _core._segments.stats()[0] >= 50
    queue.close()

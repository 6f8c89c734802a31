"""Named segments: memory in files with names, through Python's queues and arguments, and from outside."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import forklift
import forklift.multiprocessing
import pytest
import segment_targets
import support
from forklift import _core
from forklift._core import _segments


@pytest.fixture(scope="module", autouse=True)
def _manager() -> None:
    """The manager and its files stay until the end; before anything is counted."""
    _segments.create(1)
    support.until(lambda: os.path.exists(_segments.socket()), "the manager's socket")


def path_of(block: Any) -> Path:
    name = _segments.name(block)
    assert name is not None
    return Path(_segments.folder() + name)


def run(code: str, *arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **(env or {})},
    )


def test_a_segment_is_a_file_with_these_bytes() -> None:
    block = _segments.create(1000)
    memoryview(block)[:5] = b"hello"
    path = path_of(block)
    assert path.read_bytes() == b"hello" + bytes(995)
    assert len(block) == 1000
    assert block.mode == 1
    assert _segments.stats() == (1, 1000)
    assert _core.block_address(block) % 4096 == 0
    del block
    assert not path.exists()
    assert _segments.stats() == (0, 0)


def test_a_head_before_the_memory() -> None:
    block = _segments.create(10, head=64)
    memoryview(block)[:] = b"0123456789"
    assert path_of(block).read_bytes() == bytes(64) + b"0123456789"
    assert _segments.head(block) == 64


def test_memory_of_the_arena_has_no_name() -> None:
    assert _segments.name(_core.allocate(100, 1)) is None
    with pytest.raises(ValueError, match="no name"):
        _segments.hand_over(_core.allocate(100, 1))
    with pytest.raises(TypeError):
        _segments.name(b"bytes")  # type: ignore[arg-type]


def test_errors() -> None:
    with pytest.raises(ValueError, match="0 bytes"):
        _segments.create(0)
    with pytest.raises(forklift.OverBudgetError):
        _segments.create(2**45)
    block = _segments.create(100)
    name = _segments.name(block)
    assert name is not None
    assert len(_segments.find(name, 100)) == 100
    with pytest.raises(forklift.CorruptError):
        _segments.find(name, 101)
    del block
    with pytest.raises(forklift.NotFoundError):
        _segments.find(name, 100)


def test_through_queues(ctx: Any) -> None:
    queue, answers = ctx.Queue(), ctx.Queue()
    process = ctx.Process(target=segment_targets.fill, args=(queue, answers))
    process.start()
    block = _segments.create(100_000)
    queue.put(block)
    queue.put([block, block][0])
    assert [answers.get(timeout=support.DEADLINE) for _ in range(2)] == [_segments.name(block)] * 2
    assert bytes(memoryview(block)[:5]) == b"child"
    path = path_of(block)
    queue.put(None)
    process.join()
    assert path.exists()
    del block
    assert not path.exists()


def test_as_an_argument(ctx: Any) -> None:
    block = _segments.create(1000)
    process = ctx.Process(target=segment_targets.fill_argument, args=(block,))
    process.start()
    process.join()
    assert process.exitcode == 0
    assert bytes(memoryview(block)[:5]) == b"child"


def test_from_a_child_that_has_ended(ctx: Any) -> None:
    queue = ctx.Queue()
    process = ctx.Process(target=segment_targets.make, args=(queue, 20))
    process.start()
    process.join()
    blocks = [queue.get(timeout=support.DEADLINE) for _ in range(20)]
    assert [len(block) for block in blocks] == list(range(1000, 1020))
    assert [memoryview(block)[0] for block in blocks] == list(range(20))


def test_one_mapping_a_process_and_segment() -> None:
    queue = forklift.multiprocessing.Queue()
    block = _segments.create(1000)
    queue.put(block)
    queue.put((block, block))
    first = queue.get()
    second, third = queue.get()
    assert {_core.block_address(each) for each in (first, second, third)} == {_core.block_address(block)}


def test_many_are_flat() -> None:
    queue = forklift.multiprocessing.Queue()
    before = support.descriptors()
    for _ in range(1000):
        queue.put(_segments.create(5000))
        assert len(queue.get()) == 5000
    assert support.descriptors() == before
    assert _segments.stats() == (0, 0)


def test_a_message_whose_file_was_removed_is_an_error_and_the_queue_goes_on() -> None:
    queue = forklift.multiprocessing.Queue()
    block = _segments.create(1000)
    path = path_of(block)
    queue.put(block)
    del block
    path.unlink()
    queue.put("next")
    with pytest.raises(forklift.NotFoundError, match="no named segment"):
        queue.get()
    assert queue.get() == "next"


OUTSIDE = """
import sys
from forklift._core import _segments
memory = _segments.open_foreign(sys.argv[1], 1000)
assert memory.kept
view = memoryview(memory)
assert bytes(view[:6]) == b"inside"
view[:7] = b"outside"
print("done", flush=True)
sys.stdin.read()
"""


def test_a_program_outside_of_the_tree_registers() -> None:
    block = _segments.create(1000)
    memoryview(block)[:6] = b"inside"
    path = path_of(block)
    name = _segments.name(block)
    assert name is not None
    with subprocess.Popen(
        [sys.executable, "-c", OUTSIDE, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "done\n"
        assert bytes(memoryview(block)[:7]) == b"outside"
        del block
        assert path.exists()
    support.until(lambda: not path.exists(), "the name to go", 2)


def test_a_program_that_knows_nothing_of_forklift() -> None:
    block = _segments.create(1000)
    name = _segments.name(block)
    assert name is not None
    code = "import sys; print(open('/dev/shm' + sys.argv[1], 'r+b').write(b'plain'))"
    assert run(code, name).stdout == "5\n"
    assert bytes(memoryview(block)[:5]) == b"plain"


TORCH = """
import sys, torch
storage = torch.UntypedStorage._new_shared_filename_cpu(sys.argv[1].encode(), sys.argv[2].encode(), 8)
tensor = torch.tensor([], dtype=torch.uint8).set_(storage)
print(tensor.tolist(), flush=True)
tensor[0] = 99
print("done", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_an_unpatched_torch_outside_of_the_tree_registers_with_the_manager() -> None:
    block = _segments.create(8, head=64)
    memoryview(block)[:] = bytes(range(8))
    # torch counts its users in the head, and would remove the file at 0.
    count = ctypes.c_int.from_address(_core.block_address(block) - 64)
    count.value = 1 << 30
    path = path_of(block)
    name = _segments.name(block)
    assert name is not None
    with subprocess.Popen(
        [sys.executable, "-c", TORCH, _segments.socket(), name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        assert [other.stdout.readline() for _ in range(2)] == ["[0, 1, 2, 3, 4, 5, 6, 7]\n", "done\n"]
        assert memoryview(block)[0] == 99
        assert count.value == (1 << 30) + 1
        del block
        assert path.exists()
    support.until(lambda: not path.exists(), "the name to go", 2)


def test_a_name_that_was_handed_over_outlives_its_user_for_a_moment() -> None:
    block = _segments.create(1000)
    path = path_of(block)
    name = _segments.name(block)
    assert name is not None
    _segments.hand_over(block)
    del block
    found = _segments.find(name, 1000)
    assert path.exists()
    del found
    support.until(lambda: not path.exists(), "the name to go", 3)


# --- everything killed at once, and what cleans up

CREATOR = """
import os, sys
from forklift._core import _segments
blocks = [_segments.create(5000) for _ in range(3)]
print(_segments.name(blocks[0]).split("-")[1], flush=True)
sys.stdin.read()
"""


def files_of(token: str) -> list[str]:
    return sorted(name for name in os.listdir("/dev/shm") if name.startswith(f"forklift-{token}"))


@pytest.fixture
def creator() -> Iterator[tuple[subprocess.Popen[str], str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", CREATOR], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        token = process.stdout.readline().strip()
        support.until(lambda: len(support.managers(token)) == 2, "both of the manager")
        yield process, token
        process.kill()
    support.until(lambda: not files_of(token) and not support.managers(token), "the end of the manager")


def kill_everything(process: subprocess.Popen[str], token: str) -> None:
    service = support.managers(token)
    for pid in service:
        os.kill(pid, signal.SIGSTOP)
    process.kill()
    process.wait()
    for pid in service:
        os.kill(pid, signal.SIGKILL)
    support.until(lambda: not support.managers(token), "the manager's death")
    assert len(files_of(token)) == 5


def test_the_next_start_of_a_program_cleans(creator: Any) -> None:
    process, token = creator
    kill_everything(process, token)
    mine = _segments.create(1000)
    done = run("import forklift.multiprocessing as mp; mp.Queue()")
    assert (done.returncode, done.stderr) == (0, "")
    assert files_of(token) == []
    assert path_of(mine).exists()


def test_forklift_reap_removes_what_has_no_owner(creator: Any) -> None:
    process, token = creator
    mine = _segments.create(1000)
    own = os.path.basename(_segments.socket()).split(".")[0]
    command = [sys.executable, "-m", "forklift", "reap"]

    def reap(*more: str) -> str:
        return subprocess.run([*command, *more], capture_output=True, text=True, check=True).stdout

    assert f"forklift-{token}: 3 segments, 15000 bytes, in use\n" in reap()
    kill_everything(process, token)
    assert f"forklift-{token}: 3 segments, 15000 bytes, without an owner\n" in reap("--look")
    assert len(files_of(token)) == 5
    said = reap()
    assert f"forklift-{token}: 3 segments, 15000 bytes, removed\n" in said
    assert f"{own}: 1 segment, 1000 bytes, in use\n" in said
    assert files_of(token) == []
    assert path_of(mine).exists()
    assert token not in reap()


def test_forklift_reap_says_what_is_wrong(tmp_path: Path) -> None:
    def reap(*more: str, folder: Path = tmp_path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "forklift", "reap", *more],
            capture_output=True,
            text=True,
            env={**os.environ, "FORKLIFT_SHM_DIR": str(folder)},
        )

    assert (reap().returncode, reap().stdout) == (0, "")
    missing = reap(folder=tmp_path / "nowhere")
    assert missing.returncode == 1
    assert "nowhere" in missing.stderr
    assert reap("--unknown").returncode == 2
    assert "kernel frees" in reap("--help").stdout


def test_without_the_manager_program_there_is_a_clear_error() -> None:
    done = run(
        "from forklift._core import _segments; _segments.create(1)", env={"FORKLIFT_SHM_MANAGER": "/no"}
    )
    assert done.returncode == 1
    assert "NotFoundError" in done.stderr
    assert 'FORKLIFT_SHM_MANAGER is "/no"' in done.stderr


def test_the_standard_librarys_shared_memory_opens_one() -> None:
    block = _segments.create(4096)
    name = _segments.name(block)
    assert name is not None
    code = (
        "import sys; from multiprocessing import shared_memory, resource_tracker\n"
        "memory = shared_memory.SharedMemory(name=sys.argv[1].lstrip('/'))\n"
        "resource_tracker.unregister(memory._name, 'shared_memory')\n"
        "memory.buf[:3] = b'std'; memory.close()"
    )
    done = run(code, name)
    assert done.returncode == 0, done.stderr
    assert bytes(memoryview(block)[:3]) == b"std"

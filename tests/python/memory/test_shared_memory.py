"""``shared_memory``: the standard library's, but that an attach never unlinks another's segment."""

from __future__ import annotations

import inspect
import multiprocessing.shared_memory
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import support
from forklift.multiprocessing.shared_memory import ShareableList, SharedMemory

OURS = "from forklift.multiprocessing.shared_memory import ShareableList, SharedMemory"
INSTALLED = "import forklift; forklift.install(); from multiprocessing.shared_memory import *"
THEIRS = "from multiprocessing.shared_memory import *"


def program(head: str, body: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Another program: its processes have a resource tracker of their own."""
    return subprocess.run(
        [sys.executable, "-c", f"import sys; {head}; {body}", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.fixture
def segment() -> object:
    made = SharedMemory(create=True, size=100)
    made.buf[:5] = b"hello"
    yield made
    made.close()
    if (Path("/dev/shm") / made.name).exists():
        made.unlink()


@pytest.mark.parametrize("head", [OURS, INSTALLED])
def test_who_attached_leaves_it(head: str, segment: SharedMemory) -> None:
    done = program(head, "m = SharedMemory(sys.argv[1]); print(bytes(m.buf[:5])); m.close()", segment.name)
    assert (done.stdout, done.stderr) == ("b'hello'\n", "")
    again = SharedMemory(name=segment.name)
    assert again.size >= 100
    again.close()


def test_the_standard_librarys_removes_it(segment: SharedMemory) -> None:
    program(THEIRS, "SharedMemory(sys.argv[1]).close()", segment.name)
    assert not (Path("/dev/shm") / segment.name).exists()


@pytest.mark.parametrize("head", [OURS, INSTALLED])
def test_a_list_that_was_attached_to(head: str) -> None:
    made = ShareableList([1, "two", None])
    body = "m = ShareableList(name=sys.argv[1]); print(list(m)); m[0] = 7; m.shm.close()"
    done = program(head, body, made.shm.name)
    assert (done.stdout, done.stderr) == ("[1, 'two', None]\n", "")
    assert list(made) == [7, "two", None]
    made.shm.close()
    made.shm.unlink()


CHILDREN = """
import sys
import forklift.multiprocessing as mp
from forklift.multiprocessing.shared_memory import SharedMemory

def child(segment, name, remove):
    segment.buf[0] = 1
    second = SharedMemory(name)
    second.buf[1] = 2
    if remove:
        segment.unlink()

if __name__ == "__main__":
    for remove in (False, True):
        segment = SharedMemory(create=True, size=10)
        process = mp.get_context(sys.argv[1]).Process(target=child, args=(segment, segment.name, remove))
        process.start()
        process.join()
        print(process.exitcode, *segment.buf[:2])
        segment.close()
        if not remove:
            segment.unlink()
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_children_attach_and_remove(method: str, tmp_path: Path) -> None:
    """One tracker: neither what is left nor what it does not know makes it speak."""
    before = set(os.listdir("/dev/shm"))
    script = tmp_path / "script.py"
    script.write_text(CHILDREN)
    done = subprocess.run(
        [sys.executable, str(script), method], capture_output=True, text=True, timeout=60, check=True
    )
    assert (done.stdout, done.stderr) == ("0 1 2\n0 1 2\n", "")
    assert set(os.listdir("/dev/shm")) <= before


def test_another_program_may_remove_it(segment: SharedMemory) -> None:
    done = program(OURS, "m = SharedMemory(sys.argv[1]); m.close(); m.unlink()", segment.name)
    assert done.stderr == ""
    with pytest.raises(FileNotFoundError):
        SharedMemory(segment.name)
    # As in the standard library its creator's tracker still knows of it.
    multiprocessing.resource_tracker.unregister(segment._name, "shared_memory")


def test_a_killed_creators_tracker_removes_it() -> None:
    body = "m = SharedMemory(create=True, size=9); print(m.name, flush=True); sys.stdin.read()"
    creator = subprocess.Popen(
        [sys.executable, "-c", f"import sys; {OURS}; {body}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with creator:
        assert creator.stdout is not None
        name = creator.stdout.readline().strip()
        attached = SharedMemory(name)
        creator.send_signal(signal.SIGKILL)
        support.until(lambda: not (Path("/dev/shm") / name).exists(), "the tracker removes it")
        attached.close()


def test_what_is_wrong_is_what_it_was() -> None:
    assert inspect.signature(SharedMemory) == inspect.signature(multiprocessing.shared_memory.SharedMemory)
    for arguments in ({}, {"name": "x", "size": -1}, {"create": True}):
        with pytest.raises(ValueError, match=r"'(size|name)'"):
            SharedMemory(**arguments)  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError):
        SharedMemory("there-is-none")

"""Fresh memory: huge pages, and memory that is made ready beforehand."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

import forklift
import pytest

MIB = 1 << 20


def _huge_pages_can_be_had() -> bool:
    """By bare calls, so that the test is skipped for the machine's sake, and never for its own failure."""
    huge = 2 * MIB
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *3 * (ctypes.c_int,), ctypes.c_long)
    libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    file = os.memfd_create("probe")
    try:
        os.truncate(file, huge)
        space = libc.mmap(None, 2 * huge, 0, 0x22, -1, 0)  # MAP_PRIVATE | MAP_ANONYMOUS
        page = libc.mmap(-(-space // huge) * huge, huge, 3, 0x11, file, 0)  # MAP_SHARED | MAP_FIXED
        ctypes.c_char.from_address(page).value = b"1"  # the kernel collapses only where a page exists
        given: bool = libc.madvise(page, huge, 25) == 0  # MADV_COLLAPSE
        libc.munmap(space, 2 * huge)
        return given
    finally:
        os.close(file)


def _run(program: str, *, huge_pages: str = "") -> list[str]:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={**os.environ, "FORKLIFT_HUGE_PAGES": huge_pages},
    )
    return done.stdout.split()


SENT = """
import numpy as np
import forklift
from forklift.multiprocessing import Queue
{configure}
queue = Queue()
array = np.arange(1 << 20, dtype=np.int64)
queue.put(array)
got = queue.get(timeout=60)
print(np.array_equal(array, got), forklift.stats()["huge_bytes"] // (1 << 20))
"""


@pytest.mark.parametrize(
    ("configure", "huge_pages"),
    [("forklift.configure(huge_pages=True)", ""), ("forklift.configure(huge_pages=True)", "0"), ("", "1")],
)
def test_a_large_array_lies_in_huge_pages_on_request(configure: str, huge_pages: str):
    equal, huge = _run(SENT.format(configure=configure), huge_pages=huge_pages)
    assert equal == "True"
    if not _huge_pages_can_be_had():
        pytest.skip("the kernel gives no huge pages: denied, no MADV_COLLAPSE, or fragmented memory")
    assert huge == "16"  # where it was written, and where it was received


@pytest.mark.parametrize(
    ("configure", "huge_pages"),
    [("forklift.configure(huge_pages=False)", ""), ("forklift.configure(huge_pages=False)", "1"), ("", "0")],
)
def test_none_where_they_are_refused(configure: str, huge_pages: str):
    assert _run(SENT.format(configure=configure), huge_pages=huge_pages) == ["True", "0"]


READY = """
import os, time
import numpy as np
import forklift
from forklift.multiprocessing import Queue
def until(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)
queue = Queue()
forklift.set_budget(0, prefault=64 << 20)
for _ in range(3):
    child = os.fork()  # Python 3.12 and newer warn where other threads run
    if child == 0:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    queue.put(bytes(200_000))  # shared memory, which is made ready first
    queue.get()
until(lambda: forklift.stats()["cached_bytes"] >= 64 << 20)
until(lambda: len(os.listdir("/proc/self/task")) == 1)
before = forklift.stats()["committed_bytes"]
queue.put(np.ones(3 << 20))
print(queue.get().sum() == 3 << 20, forklift.stats()["committed_bytes"] - before, forklift.audit())
"""


def test_memory_is_made_ready_between_forks():
    assert _run(READY) == ["True", "0", "[]"]


def test_more_than_the_budget_cannot_be_made_ready():
    before = forklift.stats()["budget_bytes"]
    with pytest.raises(ValueError, match="made ready"):
        forklift.set_budget(MIB, prefault=2 * MIB)
    assert forklift.stats()["budget_bytes"] > MIB
    assert before > MIB

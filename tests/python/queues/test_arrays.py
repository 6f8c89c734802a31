"""Arrays of every kind and size: equal, private, writable, and none of their bytes through a pipe."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import forklift
import numpy as np
import pytest
import support
import targets
from forklift.multiprocessing import Queue

KB = 1024
SIZES = [
    1 * KB,
    4 * KB,
    7 * KB,
    7 * KB + 8,
    16 * KB,
    16 * KB + 8,
    64 * KB,
    1024 * KB,
    16 * 1024 * KB,
    256 * 1024 * KB,
]


def test_no_array_byte_goes_through_a_pipe_or_socket(ctx: Any) -> None:
    queue, answer = ctx.Queue(), ctx.Queue()
    child = ctx.Process(target=targets.sums_and_io, args=(queue, answer))
    child.start()
    for size in SIZES:
        array = np.random.default_rng(size).integers(0, 255, size // 8).astype("f8")
        blocks = forklift.stats()["block_bytes"]
        before = targets.io_bytes()
        queue.put(array)
        total, nbytes, child_moved, child_pipe = answer.get(timeout=60)
        moved = targets.io_bytes() - before
        assert (total, nbytes) == (float(array.sum()), array.nbytes)
        # Reading these figures costs a little; the largest array has 256 MB.
        assert moved < 64 * KB
        assert child_moved < 64 * KB
        assert child_pipe == 0
        if size > 7 * KB:
            assert forklift.stats()["block_bytes"] - blocks == array.nbytes
    assert forklift.stats()["pipe_bytes"] == 0
    queue.put(None)
    child.join()


def test_values_are_equal_after_a_round_trip(echo: Any) -> None:
    for size in SIZES[:-1]:
        array = np.random.default_rng(size).standard_normal(size // 8)
        back = echo(array)
        assert back.dtype == array.dtype
        assert (back == array).all()
        assert back.flags.writeable
        assert back.flags.aligned


def kinds() -> list[tuple[str, Any]]:
    big = np.arange(60_000)
    small = np.arange(24)
    found: list[tuple[str, Any]] = []
    for label, base in (("small", small), ("big", big)):
        square = base[: 24 * (len(base) // 24)].reshape(-1, 6)
        readonly = base.copy()
        readonly.flags.writeable = False
        structured = np.zeros(len(base), dtype=[("a", "i4"), ("b", "f8", (2,))])
        structured["a"] = base
        found += [
            (f"{label} slice", base[::3]),
            (f"{label} reversed", base[::-1]),
            (f"{label} column", square[:, 2]),
            (f"{label} transposed", square.T),
            (f"{label} fortran", np.asfortranarray(square)),
            (f"{label} broadcast", np.broadcast_to(base, (3, len(base)))),
            (f"{label} big-endian", base.astype(">i8")),
            (f"{label} structured", structured),
            (f"{label} structured, read-only", readonly.view([("low", "i4"), ("high", "i4")])),
            (f"{label} field", structured["a"]),
            (f"{label} object", base.astype(object)),
            (f"{label} datetime", base.astype("M8[s]")),
            (f"{label} timedelta", base.astype("m8[ms]")),
            (f"{label} masked", np.ma.masked_less(base, 5)),
            (f"{label} read-only", readonly),
            (f"{label} recarray", structured.view(np.recarray)),
            (f"{label} text", base.astype("U8")),
            (f"{label} bytes", base.astype("S8")),
            (f"{label} longdouble", base.astype(np.longdouble)),
        ]
        found += [(f"{label} {code}", base.astype(code)) for code in "?bBhHiIlLqQefdFD"]
    found += [
        ("zero size", np.zeros((0, 3))),
        ("zero size in the middle", np.zeros((4, 0, 2), order="F")),
        ("zero dimensions", np.array(3.5)),
        ("zero dimensions, object", np.array({"a": 1})),
        ("32 dimensions", np.zeros((1,) * 32)),
        ("void", np.zeros(3, dtype="V5")),
    ]
    return found


@pytest.mark.parametrize(
    "ctx", ["fork", pytest.param("spawn", marks=pytest.mark.weekly), "forkserver"], indirect=True
)
def test_every_kind_arrives_as_from_the_standard_library(ctx: Any, tmp_path: Path) -> None:
    mapped = np.memmap(tmp_path / "mapped", dtype="f4", mode="w+", shape=(30_000,))
    mapped[:] = np.arange(30_000)
    cases = [*kinds(), ("memory-mapped", mapped), ("memory-mapped, small", mapped[:10])]
    theirs: Any = multiprocessing.get_context("fork").Queue()
    there, back = ctx.Queue(), ctx.Queue()
    process = ctx.Process(target=targets.echo, args=(there, back))
    process.start()
    for label, array in cases:
        theirs.put(array)
        wanted = theirs.get(timeout=20)
        there.put(array)
        got = back.get(timeout=20)
        assert type(got) is type(wanted), label
        assert got.dtype == wanted.dtype, label
        assert got.shape == wanted.shape, label
        assert got.flags.f_contiguous == wanted.flags.f_contiguous, label
        assert got.flags.c_contiguous == wanted.flags.c_contiguous, label
        assert got.flags.writeable == wanted.flags.writeable, label
        if isinstance(got, np.ma.MaskedArray):
            assert (got.mask == wanted.mask).all(), label
            got, wanted = got.filled(0), wanted.filled(0)
        assert repr(got.tolist()) == repr(wanted.tolist()), label
    there.put(targets.STOP)
    process.join()
    theirs.close()
    theirs.join_thread()
    theirs._reader.close()


def test_a_subclass_keeps_its_class_and_attributes() -> None:
    queue = Queue()
    array = np.arange(30_000).view(targets.Tagged)
    array.tag = "kept by __reduce__"
    queue.put([array, array])
    first, second = queue.get(timeout=5)
    assert first is second
    assert type(first) is targets.Tagged
    assert first.tag == "kept by __reduce__"
    assert (first == array).all()


def test_the_sender_may_change_the_array_at_once() -> None:
    queue = Queue()
    for size in (10, 100_000):
        array = np.zeros(size)
        queue.put(array)
        array[:] = 1
        assert not queue.get(timeout=5).any()


def test_writes_after_a_fork_stay_private() -> None:
    queue, answer = Queue(), Queue()
    for size in (10, 5_000, 1_000_000):
        queue.put(np.zeros(size, dtype="u1"))
        array = queue.get(timeout=5)
        for _ in range(2):  # the second fork finds memory that is private already
            array[:] = 1
            child = os.fork()
            if child == 0:
                try:
                    seen = int(array.max())
                    array[: size // 2] = 2
                    answer.put(("child", seen))
                    # The parent's write comes now; it must not be seen here.
                    support.until(lambda: not queue.empty(), "the parent's write")
                    answer.put(("child", int(array[0]), int(array[-1])))
                    queue.get()
                finally:
                    os._exit(0)
            assert answer.get(timeout=10) == ("child", 1)
            assert int(array.max()) == 1
            array[:] = 3
            queue.put("written")
            assert answer.get(timeout=10) == ("child", 2, 1)
            os.waitpid(child, 0)
            assert int(array.min()) == 3
        del array


def test_an_array_outlives_its_sender_and_its_queue(ctx: Any) -> None:
    queue = ctx.Queue()
    sender = ctx.Process(target=targets.put_one, args=(queue, np.arange(1_000_000)))
    sender.start()
    array = queue.get(timeout=20)
    sender.join()
    del queue
    forklift.reap()
    assert (array == np.arange(1_000_000)).all()
    array += 1
    assert array[-1] == 1_000_000


def test_two_thousand_arrays_are_held_with_64_descriptors() -> None:
    out = support.run_python(
        """
        import os, resource
        import numpy as np
        from forklift.multiprocessing import Process, Queue

        def produce(queue, count):
            resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
            for i in range(count):
                queue.put(np.full(8192, float(i)))

        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        queue = Queue()
        process = Process(target=produce, args=(queue, 2000))
        process.start()
        held = [queue.get(timeout=60) for _ in range(2000)]
        process.join()
        assert all((array == i).all() for i, array in enumerate(held))
        assert all(array.flags.writeable for array in held)
        for array in held:
            array += 1
        pid = os.fork()                      # 2,000 private payloads stay private
        if pid == 0:
            held[0][:] = -1
            os._exit(0)
        os.waitpid(pid, 0)
        assert (held[0] == 1).all()
        mapped = [line for line in open("/proc/self/maps") if "memfd:forklift" in line]
        print(len(os.listdir("/proc/self/fd")), len(mapped))
        """
    )
    descriptors, mappings = map(int, out.split())
    assert descriptors < 20
    assert mappings < 20


def shm_free() -> int:
    state = os.statvfs("/dev/shm")
    return state.f_bavail * state.f_frsize


def test_an_array_larger_than_dev_shm() -> None:
    """Run with /dev/shm filled up: not one byte of it is needed."""
    free = shm_free()
    if free > 256 * 1024 * KB:
        pytest.skip(f"/dev/shm has {free >> 20} MB free; see the test with a small one")
    filler = Path("/dev/shm/forklift-test-filler")
    try:
        with filler.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, free)
        assert shm_free() < 64 * KB
        total = os.statvfs("/dev/shm").f_blocks * os.statvfs("/dev/shm").f_frsize
        queue = Queue()
        array = np.ones(total // 8 + 1_000_000)
        queue.put(array)
        assert (queue.get(timeout=30) == array).all()
    finally:
        filler.unlink()


def test_an_array_larger_than_a_small_dev_shm(root_only: None) -> None:
    """In a mount namespace of its own, with a /dev/shm of 1 MB that is full."""
    code = """
        import os, subprocess
        import numpy as np
        from forklift.multiprocessing import get_context
        import targets

        open("/dev/shm/filler", "wb").write(b"x" * (os.statvfs("/dev/shm").f_bavail * 4096))
        assert os.statvfs("/dev/shm").f_bavail == 0
        for method in ("fork", "spawn", "forkserver"):
            ctx = get_context(method)
            there, back = ctx.Queue(), ctx.Queue()
            process = ctx.Process(target=targets.echo, args=(there, back))
            process.start()
            array = np.arange(2_000_000)
            there.put(array)
            assert (back.get(timeout=60) == array).all()
            there.put(targets.STOP)
            process.join()
            print(method)
    """
    if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no mount namespace can be had here")
    # The standard library's locks need /dev/shm, ours do not.
    result = subprocess.run(
        [
            "unshare",
            "-m",
            "sh",
            "-c",
            'mount -t tmpfs -o size=1m tmpfs /dev/shm && exec "$0" -c "$1"',
            sys.executable,
            textwrap.dedent(code),
        ],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == ["fork", "spawn", "forkserver"]


def test_address_space_that_is_limited_before() -> None:
    support.run_python(
        """
        import resource
        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
        import numpy as np
        from forklift.multiprocessing import Queue
        queue = Queue()
        for size in (10, 100_000, 10_000_000):
            queue.put(np.ones(size))
            assert queue.get(timeout=20).sum() == size
        """
    )


def test_address_space_that_is_lowered_after() -> None:
    support.run_python(
        """
        import os, resource
        import numpy as np
        from forklift.multiprocessing import Queue
        queue = Queue()
        def used():
            return int(open("/proc/self/statm").read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        limit = used() + (64 << 20)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        queue.put(np.ones(100_000))
        array = queue.get(timeout=20)       # no view can be mapped any more: a copy
        assert array.sum() == 100_000 and array.flags.writeable
        queue.put(np.ones(7_000_000))       # 56 MB: too much even for a copy
        second = None
        try:
            second = queue.get(timeout=20)
        except MemoryError:
            pass
        del array, second
        queue.put(1)
        assert queue.get(timeout=5) == 1
        """
    )


def test_small_arrays_own_their_memory() -> None:
    queue = Queue()
    queue.put([np.arange(2000), np.arange(2048)])
    assert all(array.flags.owndata for array in queue.get(timeout=5))


def test_large_arrays_are_aligned_to_cache_lines() -> None:
    queue = Queue()
    for size in (3_000, 20_001, 1_000_001):
        queue.put(np.zeros(size, dtype="u1"))
        queue.put({"in": {"a": {"set"}}, "array": np.zeros(size, dtype="u1")})
        first, second = queue.get(timeout=5), queue.get(timeout=5)["array"]
        if size > 16 * KB:
            assert first.ctypes.data % 64 == 0
            assert second.ctypes.data % 64 == 0


def test_memory_is_reused() -> None:
    queue = Queue()
    array = np.zeros(1_000_000)
    queue.put(array)
    del_me = queue.get(timeout=5)
    del del_me
    committed = forklift.stats()["committed_bytes"]
    for _ in range(50):
        queue.put(array)
        queue.get(timeout=5)
    assert forklift.stats()["committed_bytes"] <= committed + array.nbytes

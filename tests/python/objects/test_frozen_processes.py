"""Frozen things between processes: handles, and readers that dirty no page."""

from __future__ import annotations

import gc
import os
import signal
import threading
from typing import Any

import forklift
import numpy as np
import pytest
import support
import targets
from forklift.objects.frozen import FrozenDict, FrozenList


def blocks() -> int:
    gc.collect()
    return forklift.stats()["blocks"]


def test_frozen_things_travel_as_handles(echo: Any) -> None:
    frozen = forklift.freeze({"list": ["x" * 100] * 5000, "array": np.arange(100_000.0)})
    before = forklift.stats()
    got = echo(frozen)
    assert type(got) is FrozenDict
    assert got["list"][-1] == "x" * 100
    inner = echo((1, frozen["list"], [frozen["array"], frozen["array"][::-2]]))
    assert type(inner[1]) is FrozenList
    assert inner[1][0] == "x" * 100
    np.testing.assert_array_equal(inner[2][1], frozen["array"][::-2])
    for array in (*inner[2], got["array"]):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
        with pytest.raises(ValueError, match=r"WRITEABLE|writeable"):
            array.flags.writeable = True
    address = frozen["array"].__array_interface__["data"]
    assert got["array"].__array_interface__["data"] == address
    assert forklift.stats()["block_bytes"] == before["block_bytes"]


def test_inside_pickled_objects(echo: Any) -> None:
    frozen = forklift.freeze(["a", "b"])
    array = forklift.freeze(np.arange(10))
    record = forklift.freeze(np.zeros(3, dtype=[("a", "i4")]))
    got = echo(targets.Holder([frozen, array, frozen, record]))
    assert got.value[0] == ["a", "b"]
    assert got.value[0] is got.value[2]
    for back, sent in ((got.value[1], array), (got.value[3], record)):
        assert back.__array_interface__["data"] == sent.__array_interface__["data"]
        assert not back.flags.writeable


def test_as_arguments_and_results(ctx: Any) -> None:
    frozen = forklift.freeze({"words": [f"word {i}" for i in range(1000)], "array": np.arange(10_000)})
    results = ctx.Queue()
    process = ctx.Process(
        target=targets.read_frozen, args=(frozen, frozen["words"], frozen["array"], results)
    )
    process.start()
    assert results.get(timeout=support.DEADLINE) == (1000, "word 999", 9_999, "ValueError", "ValueError")
    process.join(support.DEADLINE)
    with ctx.Pool(2, initializer=targets.keep_it, initargs=(frozen,)) as pool:
        assert pool.map(targets.word_of_kept, range(20)) == [f"word {i}" for i in range(20)]
        assert pool.starmap(targets.word_of, [(frozen, i) for i in range(20)]) == [
            f"word {i}" for i in range(20)
        ]
        back = pool.apply(targets.freeze_it, (["x"] * 3,))
        assert type(back) is FrozenList
        assert back == ["x"] * 3
        pool.close()
        pool.join()


def test_a_killed_reader_gives_it_back(ctx: Any) -> None:
    before = blocks()
    frozen = forklift.freeze(["a"] * 10_000)
    ready = ctx.Queue()
    process = ctx.Process(target=targets.hold, args=(frozen, ready))
    process.start()
    assert ready.get(timeout=support.DEADLINE) == 0
    del frozen
    assert blocks() == before + 1
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert blocks() == before


def _private_dirty() -> int:
    with open("/proc/self/smaps_rollup") as rollup:
        return sum(int(line.split()[1]) for line in rollup if line.startswith("Private_Dirty"))


def _grown_by_reading(things: Any) -> int:
    """KiB that a forked reader dirties by looking at everything once."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        gc.disable()
        before = _private_dirty()
        kept = 0
        for thing in things:
            kept += len(thing)
        os.write(writer, f"{_private_dirty() - before} {kept}".encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        text = answer.read()
    os.waitpid(pid, 0)
    forklift.reap()
    return int(text.split()[0])


def test_forked_readers_dirty_no_pages() -> None:
    words = [f"word number {i}" for i in range(200_000)]
    frozen = forklift.freeze(words)
    plain = _grown_by_reading(words)
    ours = _grown_by_reading(frozen)
    assert plain > 8_000  # KiB: each string's count lies in a page of the parent's
    assert ours < 1_000
    assert ours * 8 < plain


def test_threads_read_together() -> None:
    frozen = forklift.freeze({f"k{i}": [i] * 3 for i in range(500)})
    wrong: list[Any] = []

    def read() -> None:
        for _ in range(20):
            for i in range(500):
                if frozen[f"k{i}"][2] != i:
                    wrong.append(i)  # noqa: PERF401

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong

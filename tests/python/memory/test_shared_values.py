"""Value, Array, RawValue, RawArray and sharedctypes: the standard library's, in the arena."""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
import os
import pickle
import signal
from typing import Any

import forklift
import forklift.multiprocessing
import pytest
import support
import targets
from forklift.multiprocessing import heap, sharedctypes

CODES = [
    ("i", 4343, 24234),
    ("d", 3.625, -4.25),
    ("h", -232, 234),
    ("q", 2**33, 2**34),
    ("c", b"x", b"y"),
]


class Point(ctypes.Structure):
    _fields_ = (("x", ctypes.c_double), ("y", ctypes.c_int))


def blocks() -> int:
    gc.collect()
    return forklift.stats()["blocks"]


@pytest.mark.parametrize("raw", [True, False])
def test_values_are_seen_by_parent_and_child(ctx: Any, raw: bool) -> None:
    make = ctx.RawValue if raw else ctx.Value
    values = [make(code, first) for code, first, _ in CODES]
    assert [value.value for value in values] == [first for _, first, _ in CODES]
    process = ctx.Process(target=targets.set_values, args=(values, [second for _, _, second in CODES]))
    process.start()
    process.join(support.DEADLINE)
    assert process.exitcode == 0
    assert [value.value for value in values] == [second for _, _, second in CODES]


@pytest.mark.parametrize("raw", [True, False])
def test_arrays_are_seen_by_parent_and_child(ctx: Any, raw: bool) -> None:
    make = ctx.RawArray if raw else ctx.Array
    numbers = make("i", range(100_000))
    text = make("c", b"hello world")
    process = ctx.Process(target=targets.double_all, args=(numbers, text))
    process.start()
    process.join(support.DEADLINE)
    assert process.exitcode == 0
    assert numbers[:3] == [0, 2, 4]
    assert numbers[99_999] == 199_998
    assert text.value == b"HELLO WORLD"


def test_structures_and_copies(ctx: Any) -> None:
    point = ctx.Value(Point, 3, 2)
    points = ctx.Array(Point, 10)
    raw = sharedctypes.copy(Point(7, 5))
    process = ctx.Process(target=targets.move_points, args=(point, points, raw))
    process.start()
    process.join(support.DEADLINE)
    assert process.exitcode == 0
    assert (point.x, point.y) == (6, 4)
    assert [p.y for p in points] == list(range(10))
    assert raw.x == 14
    assert sharedctypes.copy(raw).x == 14


def test_increments_under_the_lock_are_not_lost(ctx: Any) -> None:
    counter = ctx.Value("q", 0)
    processes = [ctx.Process(target=targets.increment, args=(counter, 2_000)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert counter.value == 4_000


def test_a_forked_child_uses_what_it_inherits() -> None:
    value = forklift.multiprocessing.RawValue("i", 1)
    pid = os.fork()
    if pid == 0:
        value.value += 1
        os._exit(0)
    os.waitpid(pid, 0)
    forklift.reap()
    assert value.value == 2  # and the child's exit did not free it
    other = forklift.multiprocessing.RawValue("i", 7)
    assert value.value == 2
    assert other.value == 7


@pytest.mark.parametrize("size", [0, 1, 10, 100_000])
def test_memory_is_zeroed_also_when_reused(size: int) -> None:
    for _ in range(3):
        array = forklift.multiprocessing.RawArray("B", size)
        assert bytes(array) == bytes(size)
        ctypes.memset(array, 0xFF, size)
        del array


def test_blocks_come_back(ctx: Any) -> None:
    before = blocks()
    kept = [ctx.Value("i"), ctx.Array("d", 1000), ctx.RawArray("c", 5_000_000)]
    assert blocks() > before
    view = memoryview(kept[2])
    process = ctx.Process(target=targets.set_values, args=([kept[0]], [5]))
    process.start()
    process.join()
    del kept, process
    gc.collect()
    assert blocks() == before + 1
    view.release()
    del view
    assert blocks() == before


def test_a_killed_child_gives_back_what_it_held(ctx: Any) -> None:
    before = blocks()
    array = ctx.RawArray("d", 100_000)
    ready = ctx.Queue()
    process = ctx.Process(target=targets.hold, args=(array, ready))
    process.start()
    assert ready.get(timeout=support.DEADLINE) == 0
    del array
    assert blocks() == before + 1  # the child's
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert blocks() == before


def test_no_file_no_descriptor() -> None:
    array = forklift.multiprocessing.Array("d", 10_000)
    before = support.holdings()
    more = [forklift.multiprocessing.RawArray("d", 10_000) for _ in range(100)]
    after = support.holdings()
    for what in ("descriptors", "shm", "mappings"):
        assert after[what] == before[what]
    assert len(array) + len(more) == 10_100


def test_locks(either: Any) -> None:
    value = either.Value("i", 5)
    lock = value.get_lock()
    assert value.get_obj().value == 5
    assert value.acquire()
    value.release()
    with value:
        pass
    given = either.Lock()
    assert either.Value("i", 5, lock=given).get_lock() is given
    assert either.Array("i", 5, lock=given).get_lock() is given
    array = either.Array("i", 5, lock=None)
    assert array.get_lock() is not None
    assert len(array.get_obj()) == 5
    for raw in (either.Value("i", 5, lock=False), either.Array("i", 5, lock=False)):
        assert not hasattr(raw, "get_lock")
        assert not hasattr(raw, "get_obj")
    for make in (either.Value, either.Array):
        with pytest.raises(AttributeError, match="has no method 'acquire'"):
            make("i", 5, lock="navalue")
    with pytest.raises(TypeError):
        either.Array("i", 5, given)  # by keyword only
    assert lock is value.get_lock()


def test_bad_arguments(either: Any) -> None:
    with pytest.raises(TypeError):
        either.RawValue("no such code")
    with pytest.raises(ValueError, match=r"negative|Array length"):
        either.RawArray("i", -1)
    with pytest.raises(TypeError):
        either.RawArray("i", object())
    with pytest.raises((TypeError, ValueError)):
        either.Array("i", ["text"])


def test_buffer_wrapper_refuses_what_the_standard_library_refuses() -> None:
    for wrapper in (heap.BufferWrapper, multiprocessing.heap.BufferWrapper):  # type: ignore[attr-defined]
        with pytest.raises(ValueError, match="out of range"):
            wrapper(-1)
        with pytest.raises(OverflowError):
            wrapper(2**63)
    wrapper = heap.BufferWrapper(100)
    view = wrapper.create_memoryview()
    assert len(view) == 100
    assert not any(view)
    with pytest.raises(MemoryError):
        heap.BufferWrapper(2**62)


def test_sending_one_through_a_queue_is_refused(either: Any) -> None:
    value = either.RawValue("i", 1)
    with pytest.raises(RuntimeError, match="inheritance"):
        pickle.dumps(heap.BufferWrapper(8))
    with pytest.raises(RuntimeError, match="inheritance"):
        multiprocessing.reduction.ForkingPickler.dumps(value)


def test_a_stale_or_invented_handle_is_an_error() -> None:
    from forklift import _core

    block = _core.allocate(100, 0)
    for handle in ((0, 0, 0, 0, 64, 0), (2**32 - 1,) * 3 + (2**64 - 1, 2**64 - 1, 0), (1, 2, 3, 4, 5, 0)):
        with pytest.raises(forklift.CorruptError):
            _core.claim_block(*handle)
    assert len(block) == 100


def test_modules_are_real() -> None:
    assert heap.__name__ == "forklift.multiprocessing.heap"
    assert sharedctypes.__name__ == "forklift.multiprocessing.sharedctypes"
    for name in multiprocessing.sharedctypes.__all__:  # type: ignore[attr-defined]
        assert hasattr(sharedctypes, name)
    assert sharedctypes.SynchronizedBase is multiprocessing.sharedctypes.SynchronizedBase  # type: ignore[attr-defined]
    value = sharedctypes.Value("i", 1)
    assert isinstance(value, multiprocessing.sharedctypes.Synchronized)  # type: ignore[attr-defined]
    assert repr(value).startswith("<Synchronized wrapper for c_int(1)")


def _looks(array: Any) -> list[tuple[str, Any]]:
    """What a program can make of an array of points, so that the array itself is needed no longer."""
    import numpy as np

    view = memoryview(array).cast("B")
    numbers = np.frombuffer(array, np.dtype([("x", "f8"), ("y", "i4")], align=True))
    pointer = ctypes.pointer(array)
    reference = ctypes.cast(array, ctypes.POINTER(Point))
    over = (Point * 2).from_buffer(array)
    part = array[1]
    inner = memoryview(array[1]).cast("B")
    return [
        ("element", lambda: part.y),
        ("view of an element", lambda: int.from_bytes(inner[8:12], "little")),
        ("view", lambda: int.from_bytes(view[24:28], "little")),
        ("numpy", lambda: int(numbers[1]["y"])),
        ("pointer", lambda: pointer.contents[1].y),
        ("cast", lambda: reference[1].y),
        ("from_buffer", lambda: over[1].y),
    ]


@pytest.mark.parametrize("which", range(7))
def test_what_a_program_makes_of_an_array_keeps_its_memory(which: int) -> None:
    before = blocks()
    name, look = _looks(forklift.multiprocessing.RawArray(Point, ((1.0, 11), (2.0, 22))))[which]
    gc.collect()
    others = [forklift.multiprocessing.RawArray("B", b"\xff" * 32) for _ in range(200)]
    assert look() == 22, name
    del look, others
    assert blocks() == before


def test_a_value_is_few_objects_for_pythons_garbage_collector() -> None:
    counts = {}
    for name, module in (("ours", forklift.multiprocessing), ("theirs", multiprocessing)):
        context: Any = module.get_context("fork")
        context.Value("i", 0)  # imports what it needs
        gc.collect()
        before = len(gc.get_objects())
        values = [context.Value("i", 0) for _ in range(100)]
        counts[name] = len(gc.get_objects()) - before
        del values
    assert counts["ours"] <= counts["theirs"] / 3, counts


def test_a_lock_has_no_dictionary_of_its_own() -> None:
    for make in ("Lock", "RLock", "Semaphore", "BoundedSemaphore"):
        for method in ("fork", "spawn"):
            lock: Any = getattr(forklift.multiprocessing.get_context(method), make)()
            assert vars(lock) == {}
            lock.label = "a program's own"
            assert lock.label == "a program's own"

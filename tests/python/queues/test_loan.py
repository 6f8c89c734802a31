"""queue.loan(): an array that is filled where it will be received."""

from __future__ import annotations

import contextlib
import gc
import os
import queue as queue_module
import signal
import threading
from typing import Any

import forklift
import forklift.multiprocessing
import numpy as np
import pytest
import support
import targets

DTYPES = ["?", "i1", "u8", "f2", "f4", "f8", "c16"]


def blocks() -> int:
    gc.collect()
    return forklift.stats()["blocks"]


def new_queue() -> Any:
    return forklift.multiprocessing.Queue()


def copied() -> int:
    return forklift.stats()["block_bytes"]


def test_it_arrives_without_a_copy(ctx: Any) -> None:
    there, back = ctx.Queue(), ctx.SimpleQueue()
    process = ctx.Process(target=targets.lend_back, args=(there, back))
    process.start()
    before = copied()
    for shape in ((1000, 100), (7,), (), (3, 0), (2, 3, 4, 5), (16 << 20 >> 3,)):
        with there.loan(shape, "f8") as a:
            assert a.shape == shape
            assert a.dtype == np.float64
            assert a.flags.c_contiguous
            assert a.flags.aligned
            a[...] = 3.5
        got = back.get()
        assert got.shape == shape
        assert (got == 7.0).all()
        assert got.flags.writeable
    assert copied() == before
    there.put(None)
    process.join(support.DEADLINE)
    assert process.exitcode == 0


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(dtype: str) -> None:
    queue = new_queue()
    with queue.loan(30_000, dtype) as a:
        a[:] = 1
    got = queue.get(timeout=5)
    assert got.dtype == np.dtype(dtype)
    assert (got == np.ones(1, dtype)).all()


def test_afterwards_the_array_is_empty_and_aliases_nothing() -> None:
    queue = new_queue()
    with queue.loan((100, 100)) as a:
        a[:] = 1
    got = queue.get(timeout=5)
    assert a.shape == (0, 0)
    assert a.size == 0
    assert not np.shares_memory(a, got)
    for access in (lambda: a[0, 0], lambda: a[5], lambda: a.__setitem__((0, 0), 5)):
        with pytest.raises((IndexError, ValueError)):
            access()
    with pytest.raises(ValueError, match="read-only"):
        a[...] = 5
    assert a.base.size == 0
    with pytest.raises(BufferError):
        memoryview(a.base.base)
    assert (got == 1).all()


def test_without_dimensions() -> None:
    queue = new_queue()
    with queue.loan((), "i8") as a:
        a[()] = 5
    got = queue.get(timeout=5)
    got[()] = 6
    assert a[()] == 0
    with pytest.raises(ValueError, match="read-only"):
        a[()] = 7
    assert got == 6


def keep_view(a: Any) -> Any:
    return a[10:]


def keep_view_of_view(a: Any) -> Any:
    return a[10:][::2].T


def keep_memoryview(a: Any) -> Any:
    return memoryview(a)


def keep_matrix(a: Any) -> Any:
    return a.view(np.matrix)


def keep_in_list(a: Any) -> Any:
    return [a]


def keep_tensor(a: Any) -> Any:
    return forklift.Tensor.from_numpy(a)


def keep_capsule(a: Any) -> Any:
    return a.__dlpack__()


def keep_base(a: Any) -> Any:
    return a.base


def keep_buffer_of_block(a: Any) -> Any:
    return memoryview(a.base.base)


def keep_block(a: Any) -> Any:
    return a.base.base


KEEPERS = [
    keep_view,
    keep_view_of_view,
    keep_memoryview,
    keep_matrix,
    keep_in_list,
    keep_tensor,
    keep_capsule,
    keep_base,
    keep_buffer_of_block,
    keep_block,
]


def numbers(kept: Any) -> Any:
    if isinstance(kept, list):
        return None
    if type(kept).__name__ == "PyCapsule":
        return None
    if type(kept).__name__ == "Block" or (isinstance(kept, memoryview) and kept.format == "B"):
        return np.frombuffer(kept)
    return np.asarray(kept.numpy() if isinstance(kept, forklift.Tensor) else kept)


@pytest.mark.parametrize("keep", KEEPERS)
@pytest.mark.parametrize("rebind", [False, True])
def test_what_is_kept_is_a_copy_of_its_own(keep: Any, rebind: bool) -> None:
    queue = new_queue()
    before = blocks()
    if rebind:
        with queue.loan((100, 100)) as a:
            a[:] = 1
            a = keep(a)
        kept = a
        del a
    else:
        with queue.loan((100, 100)) as a:
            a[:] = 1
            kept = keep(a)
        assert a.size == 0
        del a
    got = queue.get(timeout=5)
    assert got.shape == (100, 100)
    seen = numbers(kept)
    if seen is not None and seen.size:
        assert (seen == 1).all()
    got[:] = 2
    if seen is not None and seen.size:
        assert (seen == 1).all()
        assert not np.shares_memory(seen, got)
    del kept, seen, got
    assert blocks() == before


def test_with_the_name_in_a_cell_a_global_and_a_stack() -> None:
    queue = new_queue()
    before = copied()
    with queue.loan(10_000) as a:
        (lambda: a.fill(3))()
    assert queue.get(timeout=5).sum() == 30_000
    with contextlib.ExitStack() as stack:
        b = stack.enter_context(queue.loan(10_000))
        b[:] = 2
    assert queue.get(timeout=5).sum() == 20_000
    code = "with queue.loan(10_000) as c:\n    c[:] = 1\nd = queue.get(timeout=5)"
    names: dict[str, Any] = {"queue": queue}
    exec(code, names)
    assert names["d"].sum() == 10_000
    for i in range(5):
        with queue.loan(10_000) as e:
            e[:] = i
            locals()  # a debugger's look keeps a reference in the frame, on some versions
        assert queue.get(timeout=5)[-1] == i
    assert copied() - before <= 5 * 80_000


def test_nothing_is_copied_in_a_loop() -> None:
    queue = new_queue()
    before = copied()
    for i in range(50):
        with queue.loan((300, 300), np.float32) as frame:
            frame[:] = i
        assert queue.get(timeout=5)[0, 0] == i
    assert copied() == before


def test_an_exception_abandons_it() -> None:
    queue = new_queue()
    before = blocks()
    with pytest.raises(KeyError, match="x"), queue.loan(100_000) as a:  # noqa: PT012
        a[:] = 1
        raise KeyError("x")
    assert a.size == 0
    assert blocks() == before
    assert queue.empty()
    with contextlib.suppress(KeyError), queue.loan(100_000) as a:
        view = a[5:]
        view[:] = 2
        raise KeyError("x")
    assert view.sum() == 2 * 99_995  # kept by its holder
    del a, view
    assert blocks() == before
    assert queue.empty()


def test_a_full_queue_leaves_the_array_to_its_maker() -> None:
    queue = forklift.multiprocessing.Queue(1)
    queue.put(0)
    for waits in ({"block": False}, {"timeout": 0.05}):
        with pytest.raises(queue_module.Full), queue.loan(10_000, **waits) as a:
            a[:] = 4
        assert a.sum() == 40_000  # not sent: still there
    timer = threading.Timer(0.1, queue.get)
    timer.start()
    with queue.loan(10_000) as b:
        b[:] = 5
    timer.join()
    assert queue.get(timeout=5).sum() == 50_000
    queue.put(a)
    assert queue.get(timeout=5).sum() == 40_000


def test_closed_queues() -> None:
    queue = new_queue()
    with pytest.raises(ValueError, match="closed"), queue.loan(10_000) as a:  # noqa: PT012
        queue.close()
        a[:] = 1
    assert a.sum() == 10_000
    with pytest.raises(ValueError, match="closed"):
        queue.loan(5)


def test_bad_arguments() -> None:
    queue = new_queue()
    before = blocks()
    for shape, dtype, error in [
        (-1, "f8", ValueError),
        ((3, -1), "f8", ValueError),
        ("ab", "f8", TypeError),
        (2.5, "f8", TypeError),
        ((1 << 40, 1 << 40), "f8", ValueError),
        (1 << 50, "f8", MemoryError),
        (3, object, TypeError),
        (3, "U5", TypeError),
        (3, "i4,f8", TypeError),
        (3, ">f8", TypeError),
        (3, "no such", TypeError),
    ]:
        with pytest.raises(error), queue.loan(shape, dtype):
            raise AssertionError("not reached")
    with pytest.raises(TypeError):
        queue.loan()
    with pytest.raises(TypeError):
        forklift.multiprocessing.SimpleQueue().loan(3, "f8", False)
    with pytest.raises(TypeError, match=r"forklift\.empty"):
        forklift.PortableQueue().loan(3)
    loan = queue.loan(3)
    with pytest.raises(RuntimeError, match="not entered"):
        loan.__exit__(None, None, None)
    with loan:
        pass
    with pytest.raises(RuntimeError, match="left already"):
        loan.__exit__(None, None, None)
    with pytest.raises(RuntimeError, match="once"):
        loan.__enter__()
    assert queue.get(timeout=5).shape == (3,)
    entered = queue.loan(10_000)
    entered.__enter__()
    del entered
    assert blocks() == before


def test_other_queues(ctx: Any) -> None:
    simple = ctx.SimpleQueue()
    with simple.loan(100) as a:
        a[:] = 1
    assert simple.get().sum() == 100
    joinable = ctx.JoinableQueue()
    with joinable.loan(10_000) as a:
        a[:] = 1
    assert joinable.get(timeout=5).sum() == 10_000
    joinable.task_done()
    joinable.join()


def test_death_while_filling_gives_it_back(ctx: Any) -> None:
    before = blocks()
    queue, ready = ctx.Queue(), ctx.Queue()
    process = ctx.Process(target=targets.fill_for_ever, args=(queue, ready))
    process.start()
    assert ready.get(timeout=support.DEADLINE) == 0
    assert blocks() == before + 1
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert blocks() == before
    assert queue.empty()
    support.works(queue)


def test_a_fork_while_filling() -> None:
    queue = new_queue()
    done = forklift.multiprocessing.Queue()
    with queue.loan(10_000) as a:
        a[:] = 1
        pid = os.fork()
        if pid == 0:
            # Still the same memory here; this process may send it, too, but then as a copy.
            done.get()
            a[:] = 9
            os._exit(0)
    got = queue.get(timeout=5)
    done.put(0)
    os.waitpid(pid, 0)
    forklift.reap()
    assert (got == 1).all()


def test_both_sides_of_a_fork_send() -> None:
    queue = new_queue()
    with queue.loan(10_000, "i4") as a:
        pid = os.fork()
        a[:] = 1 if pid else 2
        if pid:
            os.waitpid(pid, 0)
            a[:] = 1
    if pid == 0:
        os._exit(0)
    forklift.reap()
    assert sorted(int(queue.get(timeout=5)[0]) for _ in range(2)) == [1, 2]


def test_received_arrays_stay_private_over_a_fork() -> None:
    queue = new_queue()
    with queue.loan(100_000) as a:
        a[:] = 1
    got = queue.get(timeout=5)
    pid = os.fork()
    if pid == 0:
        got[:] = 2
        os._exit(0)
    os.waitpid(pid, 0)
    forklift.reap()
    assert (got == 1).all()


def test_over_the_budget(small_budget: int) -> None:
    queue = new_queue()
    with pytest.raises(forklift.OverBudgetError), queue.loan(small_budget + 1, "u1", block=False):
        raise AssertionError("not reached")
    support.works(queue)

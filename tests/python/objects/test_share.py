"""share: arrays in memory that all processes see and write."""

from __future__ import annotations

import gc
import os
import pickle
import signal
from typing import Any

import forklift
import forklift.multiprocessing
import numpy as np
import pytest
import support
import targets
from forklift import _core


def blocks() -> int:
    gc.collect()
    return forklift.stats()["blocks"]


def address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


ARRAYS = [
    np.arange(12.0).reshape(3, 4),
    np.asfortranarray(np.arange(12).reshape(3, 4)),
    np.arange(100)[::-3],
    np.array(7.5),
    np.zeros((3, 0, 2)),
    np.arange(100_000, dtype=np.int16),
    np.array([(1, 2.5), (3, 4.5)], dtype=[("a", "i4"), ("b", "f8")]),
    np.array(["a", "longer"]),
    np.arange(5, dtype=">i4"),
    np.broadcast_to(np.arange(3), (2, 3)),
]


@pytest.mark.parametrize("plain", ARRAYS)
def test_a_shared_array_is_a_copy(plain: Any) -> None:
    before = blocks()
    shared = forklift.share(plain)
    assert type(shared) is np.ndarray
    assert shared.dtype == plain.dtype
    np.testing.assert_array_equal(shared, plain)
    assert shared.flags.writeable
    assert shared.flags.aligned
    assert not np.shares_memory(shared, plain)
    assert forklift.share(shared) is shared
    assert forklift.share(shared.T) is not None
    assert shared.flags.f_contiguous or not plain.flags.fnc
    assert blocks() == before + 1
    del shared
    assert blocks() == before


@pytest.mark.parametrize("plain", ARRAYS)
def test_both_ends_see_the_same_memory(echo: Any, plain: Any) -> None:
    shared = forklift.share(plain)
    sent = forklift.stats()["block_bytes"]
    back = echo(shared)
    np.testing.assert_array_equal(back, plain)
    assert back.dtype == plain.dtype
    assert address(back) == address(shared) or plain.size == 0
    assert back.flags.writeable
    assert forklift.stats()["block_bytes"] == sent
    if plain.size:
        back[...] = np.zeros(1, plain.dtype)[0]
        np.testing.assert_array_equal(shared, back)


def test_views_are_sent_as_handles(echo: Any) -> None:
    shared = forklift.share(np.arange(10_000).reshape(100, 100))
    readonly = shared[5:10]
    readonly.flags.writeable = False
    record = forklift.share(np.zeros(50, dtype=[("a", "i1"), ("b", "f8")]))
    views = [
        shared[3],
        shared[::2, ::-3],
        shared.T,
        shared[50:, 50:],
        shared.reshape(10, 1000),
        shared[7:7],
        shared.view(np.int32),
        shared[4, 4:5],
        readonly,
        record["b"],
        record[::2],
        np.broadcast_to(shared[0], (3, 100)),
    ]
    for view in views:
        back = echo(view)
        np.testing.assert_array_equal(back, view)
        assert address(back) == address(view) or view.size == 0
        assert back.flags.writeable == view.flags.writeable
        assert back.strides == view.strides
    for view in (shared[0] + 1, shared.copy(), shared[[1, 2]], np.array(shared)):
        back = echo(view)
        np.testing.assert_array_equal(back, view)
        assert _core.block_under(back) is None or _core.block_under(back).mode == 0


def test_what_was_received_is_sent_on_as_a_handle(echo: Any) -> None:
    shared = forklift.share(np.zeros(100_000))
    again = echo(echo(shared)[10:])
    again[0] = 5
    assert shared[10] == 5


def test_copies_of_ordinary_arrays_stay_private(echo: Any) -> None:
    plain = np.zeros(100_000)
    back = echo(plain)
    back[:] = 1
    assert plain.sum() == 0
    value = forklift.multiprocessing.RawArray("d", 10_000)
    over = np.frombuffer(value)  # shared ctypes memory is copied, as by the standard library
    back = echo(over)
    back[:] = 1
    assert over.sum() == 0


def test_containers_are_rebuilt_with_shared_arrays(echo: Any) -> None:
    array = np.arange(1000.0)
    plain = {"a": [array, 1, "text", None], "b": (array, b"bytes"), 3: {"deep": array[::2]}, "s": np.int8(3)}
    shared = forklift.share(plain)
    assert type(shared) is dict
    assert type(shared["b"]) is tuple
    assert shared["a"][0] is shared["b"][0]
    assert shared["a"][0] is not array
    assert shared["a"][1:] == [1, "text", None]
    back = echo(shared)
    back["a"][0][0] = -1
    back[3]["deep"][1] = -2
    assert shared["b"][0][0] == -1
    assert shared[3]["deep"][1] == -2
    assert array[0] == 0


class Subclass(np.ndarray):  # type: ignore[type-arg]
    pass


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": [1, 2, 3, {1}]}, r"obj\['a'\]\[3\]: <class 'set'> cannot be shared"),
        ([np.array([object()])], r"obj\[0\]: an array of Python objects"),
        ((np.zeros(3).view(Subclass),), r"obj\[0\]: .*Subclass"),
        (bytearray(3), "obj: <class 'bytearray'> cannot be shared"),
    ],
)
def test_what_cannot_be_shared_is_named_with_its_place(value: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        forklift.share(value)


def test_as_arguments(ctx: Any) -> None:
    shared = forklift.share(np.zeros(1000))
    record = forklift.share(np.zeros(10, dtype=[("a", "i1"), ("b", "f8")]))
    plain = np.zeros(10)
    process = ctx.Process(target=targets.add_one, args=([shared, shared[500:], record["b"], plain],))
    process.start()
    process.join(support.DEADLINE)
    assert process.exitcode == 0
    assert shared[0] == 1
    assert shared[999] == 2  # through both
    assert record["b"].sum() == 10
    assert plain.sum() == 0
    with ctx.Pool(2, initializer=targets.keep_it, initargs=(shared,)) as pool:
        pool.map(targets.add_to_kept, range(1000), chunksize=50)
        pool.close()
        pool.join()
    assert shared[0] == 2


def test_a_killed_holder_gives_it_back(ctx: Any) -> None:
    before = blocks()
    shared = forklift.share(np.zeros(100_000))
    ready = ctx.Queue()
    process = ctx.Process(target=targets.hold, args=(shared, ready))
    process.start()
    assert ready.get(timeout=support.DEADLINE) == 0
    shared[0] = 1
    del shared
    assert blocks() == before + 1
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert blocks() == before


def test_messages_that_nobody_takes_give_it_back(ctx: Any) -> None:
    before = blocks()
    shared = forklift.share(np.zeros(100_000))
    queue = ctx.Queue()
    queue.put(shared)
    queue.put([shared, targets.Holder(shared[3:])])
    del shared
    assert blocks() == before + 1
    del queue
    assert blocks() == before


def test_plain_pickles_hold_a_copy() -> None:
    shared = forklift.share(np.arange(5))
    got = pickle.loads(pickle.dumps(shared))
    got[0] = 9
    assert shared[0] == 0


def test_a_fork_shares_it() -> None:
    shared = forklift.share(np.zeros(10))
    pid = os.fork()
    if pid == 0:
        shared[3] = 7
        os._exit(0)
    os.waitpid(pid, 0)
    forklift.reap()
    assert shared[3] == 7


def test_damaged_messages_are_errors(ctx: Any) -> None:
    queue = ctx.Queue()
    shared = forklift.share(np.arange(1000))
    queue.put(shared)
    codec, data = queue._take_raw()
    assert len(data) == 6 + 1 + 32
    for i in range(len(data)):
        for value in (0, 1, 0x7F, 0xFF):
            damaged = bytearray(data)
            damaged[i] = value
            queue._put_raw(codec, bytes(damaged))  # and without its lease
            with pytest.raises(forklift.CorruptError):
                queue.get(timeout=5)
    frozen = forklift.freeze([1])
    queue.put(frozen)
    codec, data = queue._take_raw()
    for cut in range(len(data)):
        queue._put_raw(codec, data[:cut])
        with pytest.raises(forklift.CorruptError):
            queue.get(timeout=5)
    queue._put_raw(codec, data)
    with pytest.raises(forklift.CorruptError):
        queue.get(timeout=5)
    support.works(queue)


def test_through_portable_queues() -> None:
    queue = forklift.PortableQueue()
    shared = forklift.share(np.zeros((10, 10)))
    queue.put(shared[2:, 3])
    got = queue.get(timeout=5)
    got[0] = 5
    assert shared[2, 3] == 5
    frozen = forklift.freeze({"words": ["a", "b"], "array": np.arange(5)})
    queue.put(frozen)
    again = forklift.open_frozen(queue.get(timeout=5))
    assert again["words"] == ["a", "b"]
    assert again["array"].tolist() == [0, 1, 2, 3, 4]
    queue.put(frozen["array"])
    readonly = queue.get(timeout=5)
    with pytest.raises(ValueError, match="read-only"):
        readonly[0] = 1
    with pytest.raises(TypeError, match="the whole"):
        queue.put(frozen["words"])
    with pytest.raises(forklift.CorruptError):
        forklift.open_frozen(forklift.zeros((100,), "uint8"))
    with pytest.raises(TypeError, match="not <class 'list'>"):
        forklift.open_frozen([1])


def test_tensors_over_shared_arrays_are_shared() -> None:
    shared = forklift.share(np.arange(12.0).reshape(3, 4))
    for view in (shared, shared[1:, ::-2], shared.T):
        tensor = forklift.Tensor.from_numpy(view)
        assert tensor.is_shared
        np.testing.assert_array_equal(tensor.numpy(), view)
        assert np.shares_memory(tensor.numpy(), shared)
    assert forklift.Tensor.from_numpy(shared[3:]).size == 0

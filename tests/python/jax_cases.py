"""JAX on the CPU. JAX is threaded, so its processes are started by spawn and forkserver."""

from __future__ import annotations

import gc
import importlib
import pickle
from collections.abc import Iterator
from typing import Any

import foreign
import forklift
import forklift.multiprocessing
import numpy as np
import pytest
import targets
from forklift.multiprocessing import Queue

DTYPES = ["bool", "int8", "int32", "uint16", "float16", "float32", "complex64"]
DTYPES += ["bfloat16", "float8_e4m3fn", "float8_e5m2", "int4"]


@pytest.fixture(scope="module")
def jax() -> Any:
    return importlib.import_module("jax")


@pytest.fixture(params=["spawn", "forkserver"])
def through(request: pytest.FixtureRequest, jax: Any) -> Iterator[Any]:
    """A function that sends an object through a child that uses JAX."""
    ctx = forklift.multiprocessing.get_context(request.param)
    queues = [ctx.Queue(), ctx.Queue()]
    child = ctx.Process(target=foreign.jax_echo, args=tuple(queues))
    child.start()

    def send(value: Any) -> Any:
        queues[0].put(value)
        return queues[1].get(timeout=110)

    yield send
    queues[0].put(targets.STOP)
    child.join()
    queues.clear()
    assert child.exitcode == 0


def same(jax: Any, got: Any, sent: Any) -> bool:
    assert isinstance(got, jax.Array)
    assert (got.dtype, got.shape, got.aval.weak_type) == (sent.dtype, sent.shape, sent.aval.weak_type)
    return np.asarray(got).tobytes() == np.asarray(sent).tobytes()


def test_arrays_travel_to_other_processes(jax: Any, through: Any) -> None:
    jnp = jax.numpy
    for dtype in DTYPES:
        for size in (5, 20_000):
            sent = jnp.arange(size).astype(dtype).reshape(-1, 5)
            facts, _, got = through({"x": [sent], "y": 1})
            assert facts == [(True, dtype, sent.shape, False), 1]
            assert same(jax, got["x"][0], sent)
    weak = jnp.asarray(3.0)
    assert weak.aval.weak_type
    for sent in (weak, jnp.zeros((0, 3)), jnp.arange(4000.0).reshape(40, 100).T):
        assert same(jax, through(sent)[2], sent)


def test_as_from_the_standard_library(jax: Any) -> None:
    """The received array is what pickle makes, except for the memory in which it lies."""
    queue = Queue()
    for sent in (jax.numpy.arange(3), jax.numpy.ones((200, 300)), jax.numpy.asarray(2)):
        control = pickle.loads(pickle.dumps(sent))
        queue.put(sent)
        got = queue.get(timeout=20)
        assert type(got) is type(control)
        assert same(jax, got, control)
        assert got.committed == control.committed
        assert got.devices() == control.devices()
    shared = jax.numpy.ones(5000)
    queue.put([shared, shared])
    first, second = queue.get(timeout=20)
    assert first is second


def test_no_copy_out(jax: Any) -> None:
    queue = Queue()
    sent = jax.numpy.arange(100_000, dtype="float32")
    before = forklift.stats()
    queue.put(sent)
    assert forklift.stats()["block_bytes"] == before["block_bytes"] + sent.nbytes
    got = queue.get(timeout=20)
    assert got.unsafe_buffer_pointer() % 64 == 0
    assert "memfd:forklift" in mapping_of(got.unsafe_buffer_pointer())
    assert forklift.stats()["blocks"] == before["blocks"] + 1
    total = jax.jit(lambda x: (x * 2).sum())(got)
    assert float(total) == float((sent * 2).sum())
    del got
    gc.collect()  # JAX releases other packages' memory at a collection or at its next operation
    assert forklift.stats()["blocks"] == before["blocks"]


def mapping_of(address: int) -> str:
    with open("/proc/self/maps") as maps:
        for line in maps:
            begin, end = (int(part, 16) for part in line.split()[0].split("-"))
            if begin <= address < end:
                return line
    return ""


def test_received_as_other_frameworks(jax: Any) -> None:
    torch = pytest.importorskip("torch")
    queue = Queue()
    for dtype in ("float32", "bfloat16", "float8_e5m2"):
        for size in (5, 20_000):
            sent = jax.numpy.arange(size).astype(dtype)
            queue.put({"x": sent})
            got = queue.get(timeout=20, as_="torch")["x"]
            assert got.dtype == getattr(torch, dtype)
            assert got.float().tolist() == sent.astype("float32").tolist()
            queue.put([sent])
            array = queue.get(timeout=20, as_="numpy")[0]
            assert array.dtype == sent.dtype
            assert array.flags.writeable
            assert array.tobytes() == np.asarray(sent).tobytes()


def test_other_frameworks_received_as_jax(jax: Any) -> None:
    torch = pytest.importorskip("torch")
    queue: Any = Queue(framework="jax")
    tensor = forklift.tensor(np.arange(5000, dtype="float32"))
    queue.put(
        [tensor, np.arange(5000, dtype="float32"), tensor.as_readonly(), np.arange(6, dtype="i4")[::-1]]
    )
    first, second, third, fourth = queue.get(timeout=20)
    for got in (first, second, third):
        assert isinstance(got, jax.Array)
        assert got[4999] == 4999
        assert "memfd:forklift" in mapping_of(got.unsafe_buffer_pointer())
    assert fourth.tolist() == [5, 4, 3, 2, 1, 0]
    queue.put(forklift.Tensor.from_dlpack(torch.arange(3000, dtype=torch.bfloat16)))
    assert queue.get(timeout=20).dtype == jax.numpy.bfloat16
    queue.put(np.ones(3))  # float64, which JAX has only with jax_enable_x64
    with pytest.raises(forklift.ConversionError, match=r"float64.*jax_enable_x64") as caught:
        queue.get(timeout=20)
    assert caught.value.received.sum() == 3


def test_a_receiver_without_jax(jax: Any) -> None:
    """A receiver that asks for NumPy gets a JAX array as a NumPy array, with or without JAX."""
    ctx = forklift.multiprocessing.get_context("spawn")
    there, back = ctx.Queue(), ctx.Queue()
    child = ctx.Process(target=foreign.without_jax, args=(there, back))
    child.start()
    there.put([jax.numpy.arange(5000), jax.numpy.arange(3)])
    assert back.get(timeout=60) == (["numpy.ndarray"] * 2, 5000 * 4999 // 2)
    child.join()
    assert child.exitcode == 0

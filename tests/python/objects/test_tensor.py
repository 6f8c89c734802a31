"""forklift.Tensor: shared when sent, without a copy to and from NumPy and DLPack."""

from __future__ import annotations

import gc
import pickle
import threading
from typing import Any

import forklift
import forklift.multiprocessing as mp
import numpy as np
import pytest
import support
import targets
from forklift.multiprocessing import Queue

DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
DTYPES += ["float16", "float32", "float64", "complex64", "complex128"]


def test_a_sent_tensor_is_the_same_memory(ctx: Any) -> None:
    queue, answer = ctx.Queue(), ctx.Queue()
    tensor = forklift.zeros([1000, 100])
    view = tensor.numpy()
    child = ctx.Process(target=targets.fill_tensor, args=(queue, answer, 7.0))
    child.start()
    copied = forklift.stats()["block_bytes"]
    queue.put(tensor)
    assert answer.get(timeout=20) == "done"
    child.join()
    assert (view == 7).all()
    assert forklift.stats()["block_bytes"] == copied
    assert tensor.is_shared


def test_views_travel_as_views() -> None:
    queue = Queue()
    tensor = forklift.tensor(np.arange(24).reshape(4, 6))
    queue.put({"column": tensor[:, 2], "reversed": tensor[::-1], "t": (tensor.transpose(0, 1), tensor[1, 3])})
    got = queue.get(timeout=5)
    assert got["column"].tolist() == [2, 8, 14, 20]
    assert got["reversed"].tolist() == np.arange(24).reshape(4, 6)[::-1].tolist()
    transposed, element = got["t"]
    assert transposed.shape == (6, 4)
    assert element.item() == 9
    got["column"][0] = 100
    assert tensor[0, 2].item() == 100
    assert transposed[2, 0].item() == 100


def test_the_memory_lives_as_long_as_anybody_holds_it() -> None:
    queue = Queue()
    tensor = forklift.empty([50_000])
    tensor.fill(3)
    queue.put(tensor)
    del tensor
    gc.collect()
    array = queue.get(timeout=5).numpy()
    gc.collect()
    assert (array == 3).all()


def test_a_tensor_over_other_memory_is_copied_once() -> None:
    queue = Queue()
    array = np.arange(10_000.0)
    tensor = forklift.Tensor.from_numpy(array)
    assert not tensor.is_shared
    tensor[5] = -1
    assert array[5] == -1
    queue.put(tensor)
    got = queue.get(timeout=5)
    assert got.is_shared
    array[5] = 9
    assert got[5].item() == -1
    queue.put(forklift.Tensor.from_numpy(array[::-2]))
    assert (queue.get(timeout=5).numpy() == array[::-2]).all()


def test_read_only_stays_read_only() -> None:
    queue = Queue()
    tensor = forklift.tensor([1.0, 2.0]).as_readonly()
    queue.put(tensor)
    got = queue.get(timeout=5)
    assert got.readonly
    assert not got.numpy().flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        got.fill(1)
    with pytest.raises(ValueError, match="read-only"):
        got[0] = 1


@pytest.mark.parametrize("dtype", DTYPES)
def test_numpy_there_and_back_without_a_copy(dtype: str) -> None:
    array = np.arange(6).astype(dtype).reshape(2, 3)
    tensor = forklift.Tensor.from_numpy(array)
    assert tensor.dtype == dtype
    assert tensor.shape == array.shape
    back = tensor.numpy()
    assert back.ctypes.data == array.ctypes.data
    assert back.dtype == array.dtype
    assert tensor.tolist() == array.tolist()
    made = forklift.zeros([2, 3], dtype)
    made[...] = array
    assert (np.asarray(made) == array).all()
    queue = Queue()
    queue.put(made)
    assert queue.get(timeout=5).tolist() == array.tolist()


def test_dlpack_without_a_copy() -> None:
    tensor = forklift.tensor(np.arange(12.0).reshape(3, 4))
    array = np.from_dlpack(tensor)
    array[0, 0] = 99
    assert tensor[0, 0].item() == 99
    source = np.arange(5)
    imported = forklift.Tensor.from_dlpack(source)
    imported[0] = 42
    assert source[0] == 42
    assert tensor.__dlpack_device__() == (1, 0)
    copied = np.from_dlpack(tensor, copy=True) if np.lib.NumpyVersion(np.__version__) >= "2.1.0" else None
    if copied is not None:
        copied[0, 0] = 0
        assert tensor[0, 0].item() == 99
    capsule = tensor.__dlpack__()
    del tensor, array
    again = forklift.Tensor.from_dlpack(capsule)
    assert again[0, 0].item() == 99
    with pytest.raises(ValueError, match="consumed"):
        forklift.Tensor.from_dlpack(capsule)


def test_a_capsule_that_nobody_takes() -> None:
    forklift.empty([100_000]).__dlpack__()
    forklift.empty([100_000]).__dlpack__(max_version=(1, 0))


def test_torch_sees_the_same_memory() -> None:
    torch = pytest.importorskip("torch")
    tensor = forklift.zeros([4, 4])
    view = torch.from_dlpack(tensor)
    view += 2
    assert tensor[3, 3].item() == 2
    half = forklift.empty([3], "bfloat16")
    half.fill(1.5)
    assert torch.from_dlpack(half).tolist() == [1.5, 1.5, 1.5]
    mine = forklift.Tensor.from_dlpack(torch.arange(3))
    assert mine.tolist() == [0, 1, 2]


def test_shapes_and_indexing() -> None:
    tensor = forklift.tensor(np.arange(24).reshape(2, 3, 4))
    array = tensor.numpy()
    for key in [
        0,
        -1,
        (1, 2),
        (..., 0),
        (0, ..., 1),
        slice(None, None, 2),
        (slice(0, 1), slice(1, None)),
        ...,
        (1, slice(None, None, -1), 3),
    ]:
        assert tensor[key].tolist() == array[key].tolist(), key
    assert tensor.reshape([6, 4]).shape == (6, 4)
    assert tensor.reshape([-1]).shape == (24,)
    assert tensor.permute([2, 0, 1]).tolist() == array.transpose(2, 0, 1).tolist()
    assert tensor.strides == (12, 4, 1)
    assert (tensor.ndim, tensor.size, tensor.itemsize, tensor.nbytes, len(tensor)) == (3, 24, 8, 192, 2)
    assert tensor.clone().tolist() == array.tolist()
    assert tensor.same_view(tensor[:])
    assert not tensor[::2].is_contiguous() or tensor.shape[0] == 2
    assert repr(tensor).startswith("Tensor(shape=[2, 3, 4], dtype=Int64, value= [[[ 0,")


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda t: t[5], IndexError),
        (lambda t: t[0, 0, 0], IndexError),
        (lambda t: t["x"], IndexError),
        (lambda t: t[..., ...], IndexError),
        (lambda t: t.reshape([5]), ValueError),
        (lambda t: t.item(), ValueError),
        (lambda t: t.fill("x"), ValueError),
        (lambda t: forklift.empty([-1]), ValueError),
        (lambda t: forklift.empty([2], "object"), TypeError),
        (lambda t: forklift.empty([1 << 62, 1 << 62]), ValueError),
        (lambda t: forklift.Tensor.from_numpy([1]), TypeError),
        (lambda t: forklift.Tensor.from_numpy(np.zeros(2, ">f4")), TypeError),
        (lambda t: forklift.Tensor.from_numpy(np.zeros(2, object)), TypeError),
        (lambda t: forklift.Tensor(), TypeError),
        (lambda t: len(t[0, 0]), TypeError),
    ],
)
def test_errors(call: Any, error: type[Exception]) -> None:
    tensor = forklift.zeros([2, 3])
    with pytest.raises(error):
        call(tensor)


def test_empty_and_scalar_tensors_travel() -> None:
    queue = Queue()
    queue.put([forklift.empty([0, 3]), forklift.tensor(3.5)])
    nothing, scalar = queue.get(timeout=5)
    assert nothing.shape == (0, 3)
    assert nothing.numpy().shape == (0, 3)
    assert scalar.shape == ()
    assert scalar.item() == 3.5


def test_tensors_inside_other_objects_are_shared_too() -> None:
    queue = Queue()
    tensor = forklift.zeros([100])
    queue.put({"a set": {1}, "tensor": tensor, "again": tensor})
    got = queue.get(timeout=5)
    assert got["tensor"] is got["again"]
    got["tensor"].fill(5)
    assert tensor[99].item() == 5


def test_a_tensor_outside_of_a_queue_is_refused() -> None:
    tensor = forklift.zeros([2])
    with pytest.raises(TypeError, match="queues"):
        pickle.dumps(tensor)


def add_to(tensor: Any, empty: Any, strided: Any, foreign: Any, queue: Any) -> None:
    tensor[1] = 5
    strided[0] = 6
    queue.put((empty.shape, strided.tolist(), foreign.tolist()))


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_tensor_is_an_argument_of_a_process(method: str) -> None:
    """The child has the same memory. A view of NumPy's memory arrives as a copy."""
    ctx: Any = mp.get_context(method)
    tensor = forklift.zeros([6])
    array = np.arange(3.0)
    queue = ctx.Queue()
    arguments = (tensor, forklift.empty([0, 3]), tensor[2::2], forklift.Tensor.from_numpy(array), queue)
    process = ctx.Process(target=add_to, args=arguments)
    process.start()
    assert queue.get(timeout=support.DEADLINE) == ((0, 3), [6.0, 0.0], [0.0, 1.0, 2.0])
    process.join()
    assert tensor.tolist() == [0.0, 5.0, 6.0, 0.0, 0.0, 0.0]
    del arguments, process


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_process_that_never_starts_leaves_no_tensor(method: str, tmp_path: Any) -> None:
    """What was offered to a child that cannot be started goes with its slot."""
    ctx: Any = mp.get_context(method)
    tensor = forklift.zeros([1000])
    with pytest.raises(TypeError, match="lock"):
        ctx.Process(target=print, args=(tensor, threading.Lock())).start()
    del tensor
    forklift.reap()

"""Arrays of any framework: what is sent of them, as what they are received, and what is refused."""

from __future__ import annotations

import array
import collections
import importlib.util
import os
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import foreign
import forklift
import ml_dtypes
import numpy as np
import pytest
import targets
from forklift.adapters import deliver
from forklift.multiprocessing import JoinableQueue, Pipe, Queue, SimpleQueue

torch = pytest.importorskip("torch")

Pair = collections.namedtuple("Pair", "left right")
NUMBERS = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
NUMBERS += ["float16", "float32", "float64", "complex64", "complex128"]
SIZES = [3, 50_000]  # in the message, in a block


def some(dtype: Any, size: int = 3) -> Any:
    return np.arange(size).astype(dtype)


# --- as_ and framework


@pytest.mark.parametrize("framework", ["torch", "numpy", "forklift"])
def test_every_start_method_delivers(ctx: Any, framework: str) -> None:
    there, back = ctx.Queue(), ctx.Queue()
    child = ctx.Process(target=foreign.take_as, args=(there, back, framework))
    child.start()
    kind = {"torch": "torch.Tensor", "numpy": "numpy.ndarray", "forklift": "forklift.Tensor"}[framework]
    for sent in (np.arange(3.0), forklift.tensor(np.arange(3.0)), foreign.Unpicklable(np.arange(3.0))):
        there.put({"x": [sent], "n": 1})
        assert back.get(timeout=60) == {"x": [(kind, "float64", [0.0, 1.0, 2.0])], "n": 1}
    there.put(targets.STOP)
    child.join()
    assert child.exitcode == 0


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", [*NUMBERS, "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_all_dtypes_as_all_frameworks(dtype: str, size: int) -> None:
    sent = some(getattr(ml_dtypes, dtype, dtype), size)
    queue = Queue()
    for framework in ("numpy", "torch", "forklift"):
        if framework == "forklift" and dtype.startswith("float8"):
            continue
        queue.put(sent)
        got = queue.get(timeout=5, as_=framework)
        assert str(got.dtype).removeprefix("torch.") == dtype
        assert tuple(got.shape) == (size,)
        back = deliver("numpy")(got)
        assert back.dtype == sent.dtype
        assert back.tobytes() == sent.tobytes()


def test_containers_keep_their_kind_and_identity() -> None:
    queue: Any = Queue(framework="torch")
    shared, inner = np.ones(3), [np.zeros(2)]
    queue.put({"a": shared, "b": (shared, "text", 5), "pair": Pair(inner, inner), "scalar": np.float32(1)})
    got = queue.get(timeout=5)
    assert isinstance(got["a"], torch.Tensor)
    assert got["b"][0] is got["a"]
    assert got["b"][1:] == ("text", 5)
    assert type(got["pair"]) is Pair
    assert got["pair"].left is got["pair"].right
    assert isinstance(got["pair"].left[0], torch.Tensor)
    assert isinstance(got["scalar"], np.float32)
    endless: list[Any] = [np.ones(1)]
    endless.append(endless)
    queue.put(endless)
    got = queue.get(timeout=5)
    assert got[1] is got
    assert isinstance(got[0], torch.Tensor)


@pytest.mark.parametrize("make", [Queue, SimpleQueue, JoinableQueue, forklift.PortableQueue])
def test_a_queues_framework_and_a_calls(make: Any) -> None:
    queue = make(framework="torch")
    for _ in range(3):
        queue.put([np.ones(3)])
    assert isinstance(queue.get()[0], torch.Tensor)
    assert isinstance(queue.get(as_="numpy")[0], np.ndarray)
    assert isinstance(queue.get(as_="forklift")[0], forklift.Tensor)
    queue.put(np.ones(3))
    if make is not SimpleQueue:
        assert isinstance(queue.get_nowait(as_="numpy"), np.ndarray)
    with pytest.raises(TypeError):
        queue.get(True, 1, "torch")


def test_children_inherit_the_framework(ctx: Any) -> None:
    there, back = ctx.Queue(framework="torch"), ctx.SimpleQueue(framework="forklift")
    child = ctx.Process(target=targets.echo, args=(there, back))
    child.start()
    there.put(np.arange(5000.0))
    got = back.get()
    assert isinstance(got, forklift.Tensor)
    assert got[4999].item() == 4999
    there.put(targets.STOP)
    child.join()


def test_pipes_deliver_too() -> None:
    receiver, sender = Pipe(duplex=False)
    for _ in range(2):
        sender.send([np.arange(3000.0)])
    got = receiver.recv(as_="torch")[0]
    assert isinstance(got, torch.Tensor)
    assert got[2999] == 2999
    with pytest.raises(ValueError, match="caffe"):
        receiver.recv(as_="caffe")
    assert isinstance(receiver.recv()[0], np.ndarray)
    for end in (sender, receiver):
        end.close()


def test_torchs_tensors_as_others() -> None:
    queue: Any = Queue()
    sent = {"x": torch.arange(5000.0), "y": [torch.ones(3, dtype=torch.bfloat16)]}
    for framework, kind in (("numpy", np.ndarray), ("forklift", forklift.Tensor), ("torch", torch.Tensor)):
        queue.put(sent)
        got = queue.get(timeout=5, as_=framework)
        assert type(got["x"]) is kind
        assert type(got["y"][0]) is kind
        assert got["x"].tolist() == sent["x"].tolist()
        assert str(got["y"][0].dtype).endswith("bfloat16")
        got["x"][0] = 7  # the same memory, as ever with torch's tensors
        assert sent["x"][0] == 7
        sent["x"][0] = 0


def test_without_a_copy() -> None:
    queue = Queue()
    tensor = forklift.zeros([10_000])
    queue.put(tensor)
    got = queue.get(as_="torch")
    got[5] = 7
    assert tensor[5].item() == 7
    queue.put(np.ones((100, 100)))
    copied = forklift.stats()["block_bytes"]
    got = queue.get(as_="torch")
    assert got.data_ptr() % 64 == 0
    assert forklift.stats()["block_bytes"] == copied
    blocks = forklift.stats()["blocks"]
    del got
    assert forklift.stats()["blocks"] == blocks - 1


def test_what_torch_has_no_tensors_for_is_copied() -> None:
    queue = Queue()
    base = forklift.tensor(np.arange(6.0))
    queue.put([base.as_readonly(), base[::-1]])
    readonly, backwards = queue.get(timeout=5, as_="torch")
    readonly[0] = 99
    assert base[0].item() == 0
    assert backwards.tolist() == [5, 4, 3, 2, 1, 0]


def test_a_framework_that_is_not_there_costs_no_message() -> None:
    if importlib.util.find_spec("cupy") is not None:
        pytest.skip("CuPy is installed")
    queue = Queue()
    queue.put(np.ones(3))
    with pytest.raises(ImportError, match="CuPy") as caught:
        queue.get(as_="cupy")
    assert caught.value.name == "cupy"
    assert queue.qsize() == 1
    with pytest.raises(ValueError, match=r"'caffe'.*'numpy'"):
        queue.get(as_="caffe")
    with pytest.raises(ValueError, match="caffe"):
        Queue(framework="caffe")
    assert queue.get().sum() == 3


def test_cupy_is_asked_for_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    cupy: Any = types.ModuleType("cupy")
    cupy.ndarray = type("ndarray", (), {})
    cupy.asarray = lambda array: ("on the device", array.tolist())
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    queue = Queue()
    queue.put({"x": forklift.tensor([1.0, 2.0])})
    assert queue.get(as_="cupy") == {"x": ("on the device", [1, 2])}


@pytest.mark.parametrize(
    ("sent", "framework", "says"),
    [
        (np.array(["a"]), "torch", "<U1"),
        (np.array([None]), "torch", "object"),
        (np.zeros(2, "M8[s]"), "forklift", "datetime64"),
        (np.zeros(2, [("a", "i4")]), "torch", "i4"),
        (np.ma.masked_array([1, 2], [0, 1]), "torch", "masked"),
        (np.zeros(9000, ml_dtypes.int4), "torch", "int4"),
        (np.zeros(2, ml_dtypes.float8_e4m3fn), "forklift", "float8_e4m3fn"),
    ],
    ids=str,
)
def test_what_a_framework_does_not_know(sent: Any, framework: str, says: str) -> None:
    queue = Queue()
    kept = [np.ones(3), {"x": sent}]
    queue.put(kept)
    with pytest.raises(forklift.ConversionError, match="received") as caught:
        queue.get(as_=framework)
    assert isinstance(caught.value, TypeError)
    assert says in str(caught.value)
    assert caught.value.framework == framework
    got = caught.value.received
    assert type(got[0]) is np.ndarray
    assert got[1]["x"].dtype == sent.dtype
    assert got[1]["x"].tobytes() == sent.tobytes()


# --- producers


def test_a_producer_that_cannot_be_pickled(ctx: Any) -> None:
    there, back = ctx.Queue(), ctx.Queue()
    child = ctx.Process(target=targets.echo, args=(there, back))
    child.start()
    for made in (foreign.Unpicklable, foreign.Legacy):
        for shape in ((3,), (100, 200), (0, 2), ()):
            sent = made(np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape))
            there.put([sent, sent])
            got, again = back.get(timeout=60)
            assert got is again
            assert type(got) is foreign.Unpicklable
            assert got.array.shape == shape
            assert (got.array == sent.array).all()
    there.put(targets.STOP)
    child.join()


def test_a_producer_that_can_be_pickled_is_what_pickle_makes_it(either: Any) -> None:
    queue = either.Queue()
    queue.put(foreign.Picklable(np.ones(3000)))
    got = queue.get(timeout=5)
    assert type(got) is foreign.Picklable
    assert got.array.sum() == 3000
    queue.close()
    queue.join_thread()


def test_a_producer_without_from_dlpack_arrives_as_a_tensor() -> None:
    made = type("Lonely", (foreign.Unpicklable,), {"__module__": "no_such_package"})
    queue = Queue()
    sent = made(np.arange(4, dtype="i2"))
    queue.put(sent)
    got = queue.get(timeout=5)
    assert type(got) is forklift.Tensor
    assert (got.dtype, got.tolist()) == ("int16", [0, 1, 2, 3])
    got[0] = 9
    assert sent.array[0] == 0


def test_elements_that_have_no_name_here() -> None:
    numbers = np.array([0.5, 1, -2], ml_dtypes.float8_e4m3fn)
    queue = Queue()
    queue.put(foreign.Float8(numbers))
    got = queue.get(timeout=5)
    assert type(got) is forklift.Carried
    assert (got.dtype, got.shape) == ("float8_e4m3fn", (3,))
    assert got.numpy().tobytes() == numbers.tobytes()
    queue.put(foreign.Float8(numbers))
    assert queue.get(as_="torch").tolist() == [0.5, 1, -2]
    queue.put(foreign.Float8(numbers))
    with pytest.raises(forklift.ConversionError, match="float8_e4m3fn"):
        queue.get(as_="forklift")


def test_memory_on_a_device_is_refused_with_a_remedy() -> None:
    queue = Queue(strict=True)
    with pytest.raises(TypeError, match="device type 8: copy it to the CPU"):
        queue.put(foreign.OnDevice(np.ones(3), 8))
    queue.put(1)
    assert queue.get() == 1


def test_memory_of_a_gpu_is_refused_where_no_driver_is() -> None:
    program = (
        "import numpy, foreign; from forklift.multiprocessing import Queue; "
        "Queue(strict=True).put(foreign.OnDevice(numpy.ones(3), 2))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env={
            **os.environ,
            "FORKLIFT_LIBCUDA": "/nowhere/libcuda.so.1",
            "PYTHONPATH": str(Path(foreign.__file__).parent),
        },
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (
        "TypeError: cannot send an array of OnDevice: its memory is on DLPack device type 2: copy it"
        in ended.stderr
    )
    assert "there are: CPU" in ended.stderr


def test_through_a_pool(ctx: Any) -> None:
    with ctx.Pool(2) as pool:
        got = pool.map(foreign.same, [foreign.Unpicklable(np.full(5000, i)) for i in range(4)])
    assert [int(item.array[0]) for item in got] == [0, 1, 2, 3]


class Touchy(type):
    def __getattr__(cls, name: str) -> Any:
        raise (AttributeError if name == "__slots__" else RuntimeError)(name)


class OfTouchy(metaclass=Touchy):
    """Its class answers no questions."""


def test_other_classes_are_not_bothered(either: Any) -> None:
    queue = either.SimpleQueue()
    queue.put(OfTouchy())
    assert type(queue.get()) is OfTouchy
    queue.close()


# --- the capsules that Tensor gives


def capsule_name(capsule: Any) -> str:
    return repr(capsule).split('"')[1]


def test_capsules_by_version_device_and_copy() -> None:
    tensor = forklift.tensor([1.0, 2.0])
    assert capsule_name(tensor.__dlpack__()) == "dltensor"
    assert capsule_name(tensor.__dlpack__(max_version=None)) == "dltensor"
    assert capsule_name(tensor.__dlpack__(max_version=(0, 8))) == "dltensor"
    assert capsule_name(tensor.__dlpack__(max_version=(1, 0))) == "dltensor_versioned"
    assert capsule_name(tensor.__dlpack__(max_version=(2, 0))) == "dltensor_versioned"
    assert capsule_name(tensor.__dlpack__(dl_device=(1, 0))) == "dltensor"
    with pytest.raises(BufferError):
        tensor.__dlpack__(dl_device=(2, 0))
    shared = torch.from_dlpack(tensor.__dlpack__())
    shared[0] = 5
    assert tensor[0].item() == 5
    copied = forklift.Tensor.from_dlpack(tensor.__dlpack__(max_version=(1, 0), copy=True))
    copied[0] = 6
    assert tensor[0].item() == 5


def test_read_only_needs_a_versioned_capsule() -> None:
    tensor = forklift.tensor([1.0, 2.0]).as_readonly()
    with pytest.raises(BufferError, match="read-only"):
        tensor.__dlpack__()
    assert forklift.Tensor.from_dlpack(tensor).readonly
    assert capsule_name(tensor.__dlpack__(copy=True)) == "dltensor"
    assert not np.from_dlpack(tensor).flags.writeable


# --- ml_dtypes


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "int4", "uint4"])
def test_ml_dtypes(echo: Any, name: str, size: int) -> None:
    sent = some(getattr(ml_dtypes, name), size)
    blocks = forklift.stats()["block_bytes"]
    got = echo(sent)
    assert got.dtype == sent.dtype
    assert got.tobytes() == sent.tobytes()
    assert got.flags.writeable
    if size * sent.itemsize > 4096:
        assert forklift.stats()["block_bytes"] >= blocks + sent.nbytes  # and not inside the pickle
    turned = np.asfortranarray(sent[: size // 3 * 3].reshape(-1, 3))
    got = echo([turned, turned[::2]])
    assert got[0].tobytes() == turned.tobytes()
    assert got[1].tobytes() == turned[::2].tobytes()


# --- what pickle 5 takes out of band by itself


def test_buffers_go_out_of_band(echo: Any) -> None:
    for sent in (bytearray(b"x" * 100_000), array.array("d", range(20_000))):
        assert echo(sent) == sent
    pandas = pytest.importorskip("pandas") if importlib.util.find_spec("pandas") else None
    if pandas is not None:
        frame = pandas.DataFrame({"x": np.arange(50_000.0), "y": np.arange(50_000)})
        got = echo(frame)
        assert (got.x == frame.x).all()
        got.loc[0, "x"] = 5.0


# --- printing and numbers


def test_tensors_print_their_elements() -> None:
    tensor = forklift.tensor([[1.0, 2.5]], "float32")
    assert str(tensor) == "[[1.  2.5]]"
    assert repr(tensor) == "Tensor(shape=[1, 2], dtype=Float32, value= [[1. , 2.5]])"
    assert str(forklift.tensor(2.5)) == "2.5"
    assert "..." in repr(forklift.zeros([100_000]))
    number = forklift.tensor(2.5)
    assert (float(number), int(number), bool(number)) == (2.5, 2, True)
    with pytest.raises((TypeError, ValueError)):
        float(tensor)
    assert (tensor.asnumpy() == [[1, 2.5]]).all()
    half = forklift.Tensor.from_dlpack(torch.tensor([1.5], dtype=torch.bfloat16))
    assert str(half) == "[1.5]"

"""A C++ program at the other end: every dtype and kind of value there and back, and what it may damage."""

from __future__ import annotations

import math
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import forklift
import ml_dtypes
import numpy as np
import pytest
import support

ROOT = Path(__file__).resolve().parents[3]


def find_peer() -> Path:
    found = [ROOT / "build" / "release" / "tests" / "cpp" / "forklift_test_peer"]
    found += sorted(ROOT.glob("build/*/tests/cpp/forklift_test_peer"))
    for path in found:
        if path.is_file():
            return path
    pytest.fail("forklift_test_peer is not built: make core")


class Peer:
    """The program, and the queues between it and this one."""

    def __init__(self, *arguments: str, tensors: bool = False) -> None:
        self.there = forklift.PortableQueue(tensors=tensors)
        self.back = forklift.PortableQueue()
        channels = {"there": self.there, "back": self.back}
        self.program = forklift.Program([find_peer(), *arguments], channels=channels)

    def get(self) -> Any:
        return self.there.get(timeout=30)

    def end(self) -> None:
        assert self.program.wait(timeout=30) == 0


@pytest.fixture
def echo() -> Iterator[Any]:
    # pytest keeps the function for longer than the leak check allows: it must not keep the queues.
    peers = [Peer("echo")]

    def through(value: Any) -> Any:
        peers[0].back.put(value)
        return peers[0].get()

    yield through
    peer = peers.pop()
    peer.back.put("stop")
    peer.end()


def nested(depth: int) -> Any:
    value: Any = "the innermost"
    for _ in range(depth):
        value = [value]
    return value


# name: the kind as C++ names it, and the value as Python does
KINDS: dict[str, Any] = {
    "null": None,
    "true": True,
    "false": False,
    "zero": 0,
    "least": -(2**63),
    "most": 2**63 - 1,
    "beyond": 2**64 - 1,
    "small": -32,
    "half": 0.5,
    "infinite": -math.inf,
    "empty text": "",
    "text": "tëxt \U0001f69c",
    "long text": "x" * 50_000,
    "no bytes": b"",
    "bytes": b"\xff" * 300,
    "many bytes": b"\7" * 100_000,
    "no list": [],
    "list": [1, "two", [3.0], None],
    "no map": {},
    "map": {"a": 1, 2: "b", b"\xff" * 300: True, 2.5: [1], False: {}},
    "deep": nested(62),
}


def test_every_kind_of_value_from_cpp_and_back() -> None:
    peer = Peer("kinds")
    seen = []
    while (message := peer.get()) != "stop":
        expected = KINDS[message["name"]]
        assert message["value"] == expected
        assert type(message["value"]) is type(expected)
        peer.back.put(message["value"])
        assert peer.get() == {"same": True}, message["name"]
        seen.append(message["name"])
    assert seen == list(KINDS)
    peer.end()


@pytest.mark.parametrize("tensors", [False, True])
def test_every_dtype_and_layout_from_cpp_and_back(tensors: bool) -> None:
    peer = Peer("dtypes", tensors=tensors)
    seen = set()
    while (message := peer.get()) != "stop":
        got = message["tensor"]
        bfloat = message["dtype"] == "bfloat16"
        assert type(got) is (forklift.Tensor if tensors or bfloat else np.ndarray)
        assert got.dtype == message["dtype"]
        assert list(got.shape) == message["shape"]
        array = got if isinstance(got, np.ndarray) else from_tensor(got)
        assert array.tobytes() == message["bytes"]
        if message["layout"] == "read-only":
            assert got.readonly if isinstance(got, forklift.Tensor) else not got.flags.writeable
        peer.back.put(got)
        assert peer.get() == {"same": True}, (message["dtype"], message["layout"])
        seen.add((message["dtype"], message["layout"]))
    assert len(seen) == 15 * 8
    peer.end()


def from_tensor(tensor: Any) -> Any:
    from forklift.adapters import deliver

    return deliver("numpy")(tensor)


def test_every_dtype_from_python_and_back(echo: Any) -> None:
    names = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
    names += ["float16", "float32", "float64", "complex64", "complex128"]
    for name in names:
        plain = np.arange(24).astype(name).reshape(4, 6)
        for sent in (
            plain,
            plain.T,
            plain[::-1, ::-2],
            plain[:, 3],
            plain[1, 2],
            plain[:0],
            np.tile(plain, 99),
        ):
            got = echo(np.asarray(sent))
            assert got["kind"] == name
            assert np.asarray(got["value"]).dtype == name
            assert np.asarray(got["value"]).shape == np.shape(sent)
            assert np.asarray(got["value"]).tobytes() == sent.tobytes()
    half = forklift.zeros([3], "bfloat16")
    half[...] = forklift.Tensor.from_dlpack(_bfloat([1.5, -2, 3]))
    got = echo(half)
    assert (got["kind"], got["value"].tolist()) == ("bfloat16", [1.5, -2, 3])
    half[0] = forklift.Tensor.from_dlpack(_bfloat([8.0]))[0]
    assert got["value"][0].item() == 8  # the same memory, over there and back


def _bfloat(numbers: list[float]) -> Any:
    from forklift import _core

    bits = np.array(numbers, ml_dtypes.bfloat16).view(np.uint16)
    return _core._view(forklift.Tensor.from_numpy(bits), "bfloat16")


def test_every_kind_from_python_and_back(echo: Any) -> None:
    for name, value in KINDS.items():
        if name != "deep":
            assert echo(value)["value"] == value, name
    assert math.isnan(echo(math.nan)["value"])
    assert echo((1, (2,)))["value"] == [1, [2]]


def forgeries() -> list[str]:
    peers = [path for path in ROOT.glob("build/*/tests/cpp/forklift_test_peer") if path.is_file()]
    if not peers:
        return ["none: it is not built"]
    return subprocess.run([find_peer(), "list"], check=True, capture_output=True, text=True).stdout.split()


@pytest.mark.parametrize("name", forgeries())
def test_a_forgery_is_a_typed_error_and_lost_alone(name: str) -> None:
    peer = Peer("broken", name)
    peer.end()
    with pytest.raises(forklift.CorruptError):
        peer.get()
    assert peer.get() == "after"
    support.works(peer.there)


def test_there_are_forgeries() -> None:
    assert len(forgeries()) >= 40

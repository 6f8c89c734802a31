"""Portable values, and programs as children."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from typing import Any

import forklift
import numpy as np
import pytest
import support
import targets

VALUES = [
    None,
    True,
    False,
    0,
    -1,
    2**63 - 1,
    -(2**63),
    2**64 - 1,
    1.5,
    float("inf"),
    "",
    "text é",
    b"",
    b"\0\xff" * 300,
    [],
    {},
    [1, [2, [3.5, "x", None]]],
    {"a": {"b": [1]}, 2: "two", 2.5: b"y", True: None},
    "x" * 100_000,
    list(range(5000)),
]


def test_values_travel(ctx: Any) -> None:
    there, back = forklift.PortableQueue(), forklift.PortableQueue()
    child = ctx.Process(target=targets.echo, args=(there, back))
    child.start()
    for value in VALUES:
        there.put(value)
        got = back.get(timeout=60)
        assert got == value
        assert type(got) is type(value)
    there.put(targets.STOP)
    child.join()


def test_tuples_become_lists_and_scalars_tensors() -> None:
    queue = forklift.PortableQueue()
    queue.put((1, (2,)))
    assert queue.get(timeout=5) == [1, [2]]
    queue.put(np.float32(2.5))
    assert queue.get(timeout=5).item() == 2.5


@pytest.mark.parametrize("tensors", [False, True])
def test_arrays_and_tensors(tensors: bool) -> None:
    queue = forklift.PortableQueue(tensors=tensors)
    shared = forklift.zeros([2, 3])
    queue.put({"array": np.arange(6).reshape(2, 3).T, "shared": shared, "nothing": np.zeros((0, 2), "u1")})
    got = queue.get(timeout=5)
    assert type(got["array"]) is (forklift.Tensor if tensors else np.ndarray)
    assert got["array"].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert got["nothing"].shape == (0, 2)
    got["shared"][...] = 4
    assert shared.tolist() == [[4, 4, 4], [4, 4, 4]]


@pytest.mark.parametrize(
    "value",
    [
        {1, 2},
        object(),
        [1, {"x": 1j}],
        {(1, 2): 3},
        2**64,
        "\ud800",
        np.zeros(2, object),
        np.zeros(2, ">f4"),
        np.zeros(2, "M8[s]"),
    ],
    ids=repr,
)
def test_what_is_not_portable_is_refused(value: Any) -> None:
    queue = forklift.PortableQueue()
    with pytest.raises((TypeError, ValueError, OverflowError)):
        queue.put(value)
    assert queue.empty()
    queue.put(1)
    assert queue.get(timeout=5) == 1


def test_nesting_without_end_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    queue = forklift.PortableQueue()
    with pytest.raises(ValueError, match="deep"):
        queue.put(endless)


def program(code: str, **options: Any) -> forklift.Program:
    path = os.pathsep.join(p for p in sys.path if p)
    return forklift.Program(
        [sys.executable, "-c", textwrap.dedent(code)], env={**os.environ, "PYTHONPATH": path}, **options
    )


def test_a_program_inherits_queues() -> None:
    there, back = forklift.PortableQueue(4), forklift.PortableQueue()
    child = program(
        """
        import os, forklift
        there = forklift.inherited("there")
        back = forklift.inherited("back")
        assert "FORKLIFT_DOMAIN" not in os.environ
        assert there._maxsize == 4
        while (array := there.get()) is not None:
            back.put({"sum": float(array.sum()), "twice": array * 2})
        """,
        channels={"there": there, "back": back},
    )
    for size in (10, 100_000):
        there.put(np.ones(size))
        got = back.get(timeout=60)
        assert got["sum"] == size
        assert (got["twice"] == 2).all()
    there.put(None)
    assert child.wait(timeout=20) == 0


def test_a_name_that_was_not_passed() -> None:
    queue = forklift.PortableQueue()
    child = program(
        """
        import forklift
        forklift.inherited("other")
        """,
        channels={"frames": queue},
        stderr=subprocess.PIPE,
    )
    _, errors = child.communicate(timeout=60)
    assert child.returncode == 1
    assert b'no queue "other"' in errors
    assert b"frames" in errors
    with pytest.raises(ValueError, match="no queue"):
        forklift.inherited("anything")


def test_a_program_that_is_killed_gives_everything_back() -> None:
    queue = forklift.PortableQueue()
    child = program(
        """
        import forklift
        queue = forklift.inherited("queue")
        held = [forklift.empty([100_000]) for _ in range(10)]
        queue.put("ready")
        queue._join()
        """,
        channels={"queue": queue},
    )
    assert queue.get(timeout=60) == "ready"
    assert forklift.stats()["blocks"] == 10
    child.kill()
    child.wait(timeout=20)
    assert forklift.stats()["blocks"] == 0
    assert child.poll() == -9


def test_a_program_that_cannot_be_started() -> None:
    queue = forklift.PortableQueue()
    with pytest.raises(FileNotFoundError):
        forklift.Program(["/nonexistent/program"], channels={"queue": queue})
    with pytest.raises(ValueError, match="name"):
        forklift.Program(["true"], channels={"a;b": queue})
    with pytest.raises(TypeError):
        forklift.Program(["true"], channels={"a": object()})  # type: ignore[dict-item]
    support.until(lambda: forklift.reap() == 0, "nothing left to reap")


def test_a_program_without_queues() -> None:
    child = forklift.Program(["true"])
    assert child.wait() == 0

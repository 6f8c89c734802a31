"""Operations on a GPU, by the fake driver, beside NumPy's; each one with each dtype: tests/cpp/ops."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import fake_cuda

HEAD = """
import os
import forklift
import numpy as np
from forklift import Tensor, context, ops

def raised(call):
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"

def there(array):
    return Tensor.from_numpy(np.ascontiguousarray(array)).to("GPU")

def here(tensor):
    assert tensor.device == "GPU", tensor.device
    return tensor.to("CPU").numpy()

rng = np.random.default_rng(0)
a = rng.standard_normal((17, 23)).astype(np.float32)
b = rng.integers(-9, 9, (17, 1)).astype(np.int16)
"""


def run(code: str) -> list[str]:
    """Run a program with the fake driver, whose work is done only when something waits for it."""
    environment = fake_cuda.environment(lazy=1)
    environment["FORKLIFT_LIBCUBLAS"] = ""
    done = subprocess.run(
        [sys.executable, "-c", HEAD + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_operators_and_reductions() -> None:
    assert run(
        """
        x, y = there(a), there(b)
        np.testing.assert_array_equal(here(x * 2 + y), a * np.float32(2) + b)
        np.testing.assert_array_equal(here(-x / 3 > y), -a / np.float32(3) > b)
        np.testing.assert_allclose(here(ops.sum(ops.exp(x), axis=0)), np.exp(a).sum(axis=0), rtol=1e-5)
        np.testing.assert_allclose(here(ops.var(x, axis=1, correction=1)), a.var(axis=1, ddof=1), rtol=1e-5)
        np.testing.assert_array_equal(here(ops.argmax(x, axis=1)), a.argmax(axis=1))
        np.testing.assert_allclose(here(x @ x.T), a @ a.T, rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(here(ops.where(x > 0, x, 0)), np.where(a > 0, a, 0))
        np.testing.assert_array_equal(here(ops.concat([x, x[::-1]], axis=0)), np.concatenate([a, a[::-1]]))
        np.testing.assert_array_equal(here(y // 4 % 3), b // 4 % 3)
        print("alike")
        """
    ) == ["alike"]


def test_views_and_setting() -> None:
    assert run(
        """
        x = there(a)
        np.testing.assert_array_equal(here(x[3, ::-2] + 0), a[3, ::-2])
        np.testing.assert_array_equal(here(x.T + 0), a.T)
        x[:, 1:5] = 7
        x[0] = there(a[1])
        expected = a.copy()
        expected[:, 1:5] = 7
        expected[0] = a[1]
        np.testing.assert_array_equal(here(x), expected)
        x += 1
        np.testing.assert_array_equal(here(x), expected + np.float32(1))
        print(float(x[2, 2].to("CPU")), ops.sum(x[2, 1:3]).to("CPU").item())
        """
    ) == ["8.0 16.0"]


def test_tensors_made_there() -> None:
    assert run(
        """
        context.set_context(device_target="GPU")
        x = ops.arange(6, dtype="float32").reshape((2, 3)) + ops.ones((2, 3))
        print(x.device, here(x).tolist())
        """
    ) == ["GPU [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]"]


def test_what_a_gpu_does_not_compute_is_refused_by_name() -> None:
    lines = run(
        """
        x = there(a)
        print(raised(lambda: ops.sort(x)))
        print(raised(lambda: x[x > 0]))
        print(raised(lambda: ops.cumulative_sum(x, axis=0)))
        """
    )
    for line, name in zip(lines, ("sort", "index", "cumulative_sum"), strict=True):
        assert line.startswith(f"NotImplementedError: not supported: {name}(")
        assert 'copy it with to("CPU")' in line

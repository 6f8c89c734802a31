"""Random numbers: their bits, their moments, and that they depend on the seed alone."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from forklift import Tensor, ops
from forklift.ops import random

LARGE = 1_000_000


def philox(counter: tuple[int, ...], key: tuple[int, ...]) -> tuple[int, ...]:
    """Philox4x32-10 as the paper has it; the vectors in test_the_published_vectors check it."""
    c, k, mask = list(counter), list(key), 0xFFFFFFFF
    for _ in range(10):
        first, second = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(second >> 32) ^ c[1] ^ k[0], second & mask, (first >> 32) ^ c[3] ^ k[1], first & mask]
        k = [(k[0] + 0x9E3779B9) & mask, (k[1] + 0xBB67AE85) & mask]
    return tuple(c)


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ((0,) * 4, (0,) * 2, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_the_published_vectors(counter: Any, key: Any, expected: tuple[int, ...]) -> None:
    """Random123's kat_vectors, through a generator that stands at that block."""
    assert philox(counter, key) == expected
    position, stream = (counter[i] | counter[i + 1] << 32 for i in (0, 2))
    state = (key[0] | key[1] << 32, stream, position, 0)

    def there() -> random.Generator:
        generator = random.Generator.__new__(random.Generator)
        generator.__setstate__(state)
        return generator

    bits = there().integers(-(2**31), 2**31, shape=[2]).numpy()
    words = [expected[i] | expected[i + 1] << 32 for i in (0, 2)]
    # The range has 2**32 numbers, so that these are the upper halves.
    assert bits.tolist() == [(word >> 32) - 2**31 for word in words]
    assert there().uniform(shape=[4]).tolist() == [(word >> 8) * 2.0**-24 for word in expected]
    assert there().uniform(shape=[2], dtype="float64").tolist() == [(w >> 11) * 2.0**-53 for w in words]


def everything(seed: int) -> list[np.ndarray[Any, Any]]:
    generator = random.Generator(seed)
    return [
        generator.uniform(shape=[3, 70_001]).numpy(),
        generator.uniform(-3, 5, shape=[70_001], dtype="float64").numpy(),
        generator.normal(shape=[70_001]).numpy(),
        generator.normal(1, 2, shape=[70_001], dtype="float64").numpy(),
        generator.integers(0, 1_000_003, shape=[70_001]).numpy(),
        generator.integers(-5, 5, shape=[9], dtype="int8").numpy(),
        generator.permutation(100_001).numpy(),
    ]


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    expected = everything(7)
    program = (
        "import numpy as np, sys; from forklift.ops import random; g = random.Generator(7);"
        "sys.stdout.buffer.write(g.uniform(shape=[3, 70_001]).numpy().tobytes())"
    )
    for threads in ("1", "3"):
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={"FORKLIFT_NUM_THREADS": threads, "FORKLIFT_CPU": "base"},
            capture_output=True,
            check=True,
        )
        assert done.stdout == expected[0].tobytes()
    for one, other in zip(everything(7), expected, strict=True):
        np.testing.assert_array_equal(one, other)
    assert not np.array_equal(everything(8)[0], expected[0])


def test_moments() -> None:
    generator = random.Generator(123)
    for dtype in ("float32", "float64"):
        x = generator.uniform(2, 6, shape=[LARGE], dtype=dtype).numpy().astype("float64")
        assert x.min() >= 2
        assert x.max() < 6
        assert abs(x.mean() - 4) < 0.005
        assert abs(x.var() - 16 / 12) < 0.005
        z = generator.normal(3, 2, shape=[LARGE], dtype=dtype).numpy().astype("float64")
        z = (z - 3) / 2
        moments = [(z**n).mean() for n in range(1, 5)]
        np.testing.assert_allclose(moments, [0, 1, 0, 3], atol=0.02)
        assert abs((np.abs(z) < 1).mean() - 0.6827) < 0.002
    dice = generator.integers(1, 7, shape=[LARGE], dtype="uint8").numpy()
    counts = np.bincount(dice, minlength=7)
    assert counts[0] == 0
    # Chi squared of five degrees of freedom.
    assert (((counts[1:] - LARGE / 6) ** 2) / (LARGE / 6)).sum() < 25
    wide = generator.integers(-(2**63), 2**63 - 1, shape=[LARGE]).numpy()
    assert abs(wide.astype("float64").mean()) < 2**63 * 0.005
    third = generator.integers(0, 3 << 61, shape=[LARGE]).numpy()  # a quarter of the bits is dropped
    np.testing.assert_allclose(np.bincount(third >> 61) / LARGE, [1 / 3] * 3, atol=0.003)


def test_permutations() -> None:
    generator = random.Generator(5)
    order = generator.permutation(1000).numpy()
    assert sorted(order.tolist()) == list(range(1000))
    assert not np.array_equal(order, np.arange(1000))
    array = np.arange(30).reshape(10, 3)
    mixed = generator.permutation(array).numpy()
    assert sorted(mixed.tolist()) == array.tolist()
    x = Tensor(array)
    generator.shuffle(x)
    assert sorted(x.tolist()) == array.tolist()
    assert x.tolist() != array.tolist()
    firsts = [int(generator.permutation(4)[0].item()) for _ in range(4000)]
    np.testing.assert_allclose(np.bincount(firsts) / 4000, [0.25] * 4, atol=0.03)


def test_streams_and_states() -> None:
    generator = random.Generator(11)
    generator.uniform(shape=[5])
    copy = pickle.loads(pickle.dumps(generator))
    assert copy.state == generator.state
    assert copy.uniform(shape=[9]).tolist() == generator.uniform(shape=[9]).tolist()
    children = generator.spawn(3) + generator.spawn(1)
    states = [child.state for child in children]
    assert len(set(states)) == 4
    assert [c.state for c in copy.spawn(4)] == states  # the same family from the same state
    numbers = np.array([child.normal(shape=[10_000]).numpy() for child in (*children, generator)])
    assert np.abs(np.corrcoef(numbers) - np.eye(5)).max() < 0.05
    assert random.Generator().state != random.Generator().state
    assert random.Generator(1).uniform().shape == ()


def test_ranges_and_dtypes() -> None:
    generator = random.Generator(3)
    assert generator.integers(10, shape=[100]).numpy().max() < 10
    assert generator.integers(7, 8, shape=[3]).tolist() == [7, 7, 7]
    assert generator.uniform(shape=[0, 3]).shape == (0, 3)
    tiny = generator.uniform(1, np.nextafter(np.float32(1), np.float32(2)), shape=[10_000]).numpy()
    assert (tiny == 1).all()
    for call, error, text in [
        (lambda: generator.uniform(2, 1), ValueError, "no numbers from 2"),
        (lambda: generator.normal(0, -1), ValueError, "deviation of -1"),
        (lambda: generator.normal(dtype="int8"), ValueError, "float32 or float64, not int8"),
        (lambda: generator.integers(5, 5), ValueError, "no numbers from 5 to before 5"),
        (lambda: generator.integers(0, 300, dtype="uint8"), ValueError, "uint8 does not hold"),
        (lambda: generator.integers(0, 3, dtype="float32"), ValueError, "float32 does not hold"),
        (lambda: generator.permutation(-1), ValueError, "-1 numbers"),
        (lambda: generator.shuffle(Tensor([1]).as_readonly()), ValueError, "read-only"),
        (lambda: generator.spawn(-1), ValueError, "-1 generators"),
        (lambda: random.Generator(-1), ValueError, "a seed is"),
        (lambda: random.Generator("a"), TypeError, "a seed is"),
    ]:
        with pytest.raises(error, match=text):
            call()
    assert ops.random is random

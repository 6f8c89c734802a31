"""Operations on tensors beside NumPy's on arrays: with one thread, and with two.

NumPy's elementwise functions and reductions have one thread always; its matrix products have as many as ours.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from rows.spec import Library, Row, Scale

OURS, PEER = "forklift.ops", "numpy"


def _array(library: Library, array: Any) -> Any:
    return library.module.astype(array, str(array.dtype)) if library.name == OURS else array


def _median(function: Callable[[], Any], count: int) -> float:
    """Microseconds of one call, once the caches have what they keep: 1M elements took a hundred calls."""
    for _ in range(1 + count // 3):
        function()
    times = []
    for _ in range(count):
        begin = time.perf_counter()
        function()
        times.append(time.perf_counter() - begin)
    return sorted(times)[count // 2] * 1e6


def _repeats(size: int, scale: Scale) -> int:
    """How often an operation on so many elements is measured."""
    return scale.count(max(300_000_000 // size, 5), 3)


def _with_threads(threads: int, library: Library, measure: Callable[[], float]) -> float:
    if library.name == OURS:
        importlib.import_module("forklift.context").set_context(num_threads=threads)
    with threadpool_limits(threads):
        return measure()


def _operand(dtype: str, size: int, library: Library, seed: int = 0) -> Any:
    return _array(library, np.random.default_rng(seed).random(size).astype(dtype) + np.asarray(0.5, dtype))


def _elementwise(
    name: str, operands: int, dtype: str, size: int, threads: int, library: Library, scale: Scale
) -> float:
    """Microseconds of one call with `out`, whose memory is there already."""
    # Operands that differ: NumPy's logaddexp returns early where they are equal.
    tensors = [_operand(dtype, size, library, seed) for seed in range(operands)]
    out = _operand(dtype, size, library)
    if library.name == OURS:
        out.numpy()  # operations on memory that is seen are complete when they return
    function = getattr(library.module, name)
    call = functools.partial(function, *tensors, out=out)
    return _with_threads(threads, library, lambda: _median(call, _repeats(size, scale)))


def _in_parts(size: int, threads: int, compute: Callable[[slice], Any], scale: Scale) -> float:
    """Microseconds of `compute` on as many parts as there are threads, each by a thread.

    With NumPy's functions it shows what the memory limits: where one thread fills it, a second adds little,
    whoever computes.
    """
    bounds = [size * part // threads for part in range(threads + 1)]
    parts = [slice(*pair) for pair in itertools.pairwise(bounds)]
    with ThreadPoolExecutor(threads - 1) as others:

        def call() -> None:
            waiting = [others.submit(compute, part) for part in parts[1:]]
            compute(parts[0])
            for future in waiting:
                future.result()

        return _median(call, _repeats(size, scale))


def _numpy_in_parts(name: str, operands: int, dtype: str, size: int, threads: int, scale: Scale) -> float:
    """Microseconds of NumPy's elementwise function in as many threads."""
    arrays = [np.random.default_rng(seed).random(size).astype(dtype) for seed in range(operands)]
    out: Any = np.empty(size, dtype)
    out.fill(0)
    function = getattr(np, name)

    def compute(part: slice) -> None:
        pieces = [array[part] for array in arrays]
        function(*pieces, out=out[part])

    return _in_parts(size, threads, compute, scale)


def _numpy_reduces_in_parts(name: str, dtype: str, size: int, threads: int, scale: Scale) -> float:
    """Microseconds of NumPy's reduction in as many threads; what they found is not put together."""
    array = np.random.default_rng(0).random(size).astype(dtype)
    function = getattr(np, name)
    return _in_parts(size, threads, lambda part: float(function(array[part])), scale)


def _numpy_there(name: str, operands: int, dtype: str, size: int, scale: Scale) -> float:
    """Microseconds of NumPy's function on the memory on which ours works.

    All processes can share it. Its pages are small, unless the kernel gives huge ones.
    """
    ops = importlib.import_module(OURS)
    here = Library(OURS, ops)
    tensors = [_operand(dtype, size, here, seed) for seed in range(operands + 1)]
    *arrays, out = [tensor.numpy() for tensor in tensors]
    function = getattr(np, name)
    return _median(lambda: function(*arrays, out=out), _repeats(size, scale))


def _reduction(name: str, dtype: str, size: int, threads: int, library: Library, scale: Scale) -> float:
    x = _operand(dtype, size, library)
    function = getattr(library.module, name)
    return _with_threads(
        threads,
        library,
        lambda: _median(lambda: float(function(x)), _repeats(size, scale)),
    )


def _matmul(dtype: str, size: int, threads: int, library: Library, scale: Scale) -> float:
    x = _operand(dtype, size * size, library)
    x = x.reshape([size, size])
    out = _operand(dtype, size * size, library).reshape([size, size])
    if library.name == OURS:
        out.numpy()
    call = functools.partial(library.module.matmul, x, x, out=out)
    return _with_threads(threads, library, lambda: _median(call, scale.count(max(2**31 // size**3, 5), 3)))


def _tiny(library: Library, scale: Scale) -> float:
    """Nanoseconds of an addition of one number to another, each in an array."""
    x = _array(library, np.ones(1, "float32"))
    function, count = library.module.add, scale.count(200_000, 1000)
    function(x, x)
    begin = time.perf_counter()
    for _ in range(count):
        function(x, x)
    return (time.perf_counter() - begin) / count * 1e9


def _row(
    name: str,
    measure: Any,
    goal: float,
    note: str,
    unit: str = "us",
    floor: Any = None,
    floor_name: str = "NumPy in as many threads",
) -> Row:
    return Row(
        name,
        unit,
        goal=goal,
        measure=measure,
        ours=OURS,
        peer=PEER,
        repeat=7,
        note=note,
        floor=floor,
        floor_name=floor_name,
        floor_factor=1.0 if floor else None,
    )


_SIZES = {"1M": 1_000_000, "10M": 10_000_000, "100M": 100_000_000}
_MILLION = 1_000_000


def _rows(threads: int, goal: float) -> list[Row]:
    partial = functools.partial
    words = f"{threads} thread" + "s" * (threads > 1)
    large = f"float32, into memory that is there; {words}"
    sums = f"float32; ours accumulates in float64; {words}"
    scalar = f"1,000,000 float64, for which NumPy has no vectors; {words}"
    vector = f"1,000,000 float32, for which NumPy has vectors; {words}"
    products = f"1024 x 1024, beside OpenBLAS; {words}"
    add = {text: partial(_elementwise, "add", 2, "float32", size, threads) for text, size in _SIZES.items()}
    total = {text: partial(_reduction, "sum", "float32", size, threads) for text, size in _SIZES.items()}
    sum_floors: dict[str, Any] = {}
    if threads == 1:
        floor_name = "NumPy on the same memory"
        floors = {text: partial(_numpy_there, "add", 2, "float32", size) for text, size in _SIZES.items()}
    else:
        floor_name = "NumPy in as many threads"
        floors = {
            text: partial(_numpy_in_parts, "add", 2, "float32", size, threads)
            for text, size in _SIZES.items()
            if size > _MILLION
        }
        sum_floors = {
            text: partial(_numpy_reduces_in_parts, "sum", "float32", _SIZES[text], threads) for text in floors
        }
    slow = {"sin": 1, "logaddexp": 2, "hypot": 2}
    return [
        *(
            _row(
                f"ops-add-{text}-{threads}",
                measure,
                goal,
                large,
                floor=floors.get(text),
                floor_name=floor_name,
            )
            for text, measure in add.items()
        ),
        *(
            _row(f"ops-sum-{text}-{threads}", measure, goal, sums, floor=sum_floors.get(text))
            for text, measure in total.items()
        ),
        *(
            _row(
                f"ops-{name}-{threads}",
                partial(_elementwise, name, operands, "float64", _MILLION, threads),
                3,
                scalar,
            )
            for name, operands in slow.items()
        ),
        *(
            _row(
                f"ops-{name}-{threads}",
                partial(_elementwise, name, 1, "float32", _MILLION, threads),
                goal,
                vector,
            )
            for name in ("exp", "tanh")
        ),
        *(
            _row(f"ops-matmul-{dtype}-{threads}", partial(_matmul, dtype, 1024, threads), 1 / 1.3, products)
            for dtype in ("float32", "float64")
        ),
    ]


ROWS = (
    *_rows(1, 1.0),
    *_rows(2, 1.7),
    _row("ops-tiny", _tiny, 0.5, "one addition of one element", "ns"),
)

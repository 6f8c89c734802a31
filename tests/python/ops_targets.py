"""What the children of tests/python/ops run."""

from __future__ import annotations

from typing import Any

import forklift
import forklift.multiprocessing as mp
from forklift import Tensor, _core, context, ops

N = 200_000


def compute_and_send(queue: Any, number: int) -> None:
    x = forklift.zeros([N]) + (number + 2)
    queue.put((number, ops.log(x)))


def total(x: Tensor) -> float:
    return float(ops.sum(x + 0))


def nested(queue: Any, x: Tensor, depth: int) -> None:
    if depth == 0:
        queue.put(total(x))
        return
    y = x + 1
    process = mp.get_context("fork").Process(target=nested, args=(queue, y - 1, depth - 1))
    process.start()
    process.join()
    assert process.exitcode == 0
    assert total(y) == total(x) + y.size


def nothing() -> None:
    pass


def put_fork_counts(queue: Any) -> None:
    ops.sum(forklift.zeros([N]) + 1).item()
    queue.put(_core._runtime.fork_counts())


def after(event: Any, queue: Any, x: Tensor) -> None:
    event.wait()
    queue.put(total(x))


def compute_there_then_here(queue: Any) -> None:
    there = context.devices()[1]
    context.set_context(device_target=there)
    x = Tensor(1.0) + 1
    context.set_context(device_target="CPU")
    y = x.to("CPU") + Tensor(1.0)
    queue.put((x.device, y.device, float(y)))

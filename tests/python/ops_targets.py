"""What the children of tests/python/ops run."""

from __future__ import annotations

import os
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


def outlive_the_parent(x: Tensor, reports: int, parent: int, mine: int) -> None:
    """Computes before and after the parent's end, which it sees since nobody else holds `mine`."""
    os.close(mine)
    before = total(x)
    os.write(reports, b"computing\n")
    assert os.read(parent, 1) == b""
    os.write(reports, f"{before} {total(x)} {float(ops.sum(ops.sqrt(x * x)))}\n".encode())


def be_killed_with_operations_in_flight(reports: int) -> None:
    """Forks two children and then computes for ever."""
    context.set_context(num_threads=3)
    reads, writes = os.pipe()
    x = forklift.zeros([N]) + 3
    for _ in range(2):
        mp.get_context("fork").Process(target=outlive_the_parent, args=(x, reports, reads, writes)).start()
    os.write(reports, b"started\n")
    y = x
    while True:
        y = y + 1

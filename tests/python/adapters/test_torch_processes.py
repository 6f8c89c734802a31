"""torch's CPU tensors among several processes and threads, and what is left of them."""

from __future__ import annotations

import gc
import os
import threading
from typing import Any

import forklift
import forklift.multiprocessing as fmp
import support
import torch_targets
from forklift import _core
from torch_support import DEADLINE, torch

# --- processes


def test_a_child_made_by_fork_shares_what_was_sent() -> None:
    queue = fmp.Queue()
    tensor = torch.zeros(10)
    queue.put(tensor)
    got = queue.get(timeout=5)
    child = os.fork()
    if child == 0:
        tensor[0] = 1
        got[1] = 2
        os._exit(0)
    os.waitpid(child, 0)
    assert tensor.tolist()[:2] == [1, 2]


def test_the_receiver_sends_it_on(ctx: Any) -> None:
    first, second, done = ctx.Queue(), ctx.Queue(), ctx.Queue()
    relay = ctx.Process(target=torch_targets.echo, args=(first, second))
    worker = ctx.Process(target=torch_targets.add_one, args=(second, done))
    relay.start()
    worker.start()
    tensor = torch.zeros(20_000)
    first.put(tensor)
    assert done.get(timeout=DEADLINE) == "done"
    assert (tensor == 1).all()
    first.put(torch_targets.STOP)
    second.put(torch_targets.STOP)
    relay.join(DEADLINE)
    worker.join(DEADLINE)


def test_the_sender_may_leave_at_once(ctx: Any) -> None:
    queue = ctx.Queue()
    processes = [ctx.Process(target=torch_targets.send_and_leave, args=(queue, i)) for i in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(DEADLINE)
    assert sorted(queue.get(timeout=DEADLINE)[-1].item() for _ in processes) == [0, 1, 2]


def test_a_receiver_that_is_killed_gives_it_back(ctx: Any) -> None:
    queue, told = ctx.Queue(), ctx.Queue()
    process = ctx.Process(target=torch_targets.killed_with, args=(queue, told))
    process.start()
    tensor = torch.full((5_000,), 4.0)
    queue.put(tensor)
    assert told.get(timeout=DEADLINE) == 4
    process.join(DEADLINE)
    tensor[0] = 6
    assert tensor[0] == 6


def test_a_process_without_torch_imports_it(ctx: Any) -> None:
    queue, answer = ctx.Queue(), ctx.Queue()
    process = ctx.Process(target=torch_targets.was_imported, args=(queue, answer))
    process.start()
    queue.put([torch.arange(3)][0])
    before, kind, items = answer.get(timeout=60)
    assert (kind, items) == ("Tensor", [0, 1, 2])
    if ctx.get_start_method() == "spawn":
        assert not before
    process.join(DEADLINE)


def test_pools(ctx: Any) -> None:
    with ctx.Pool(2) as pool:
        tensors = [torch.full((2_000,), float(i)) for i in range(8)]
        assert pool.map(torch_targets.total, tensors) == [2_000.0 * i for i in range(8)]
        results = pool.map(torch_targets.doubled, tensors)
        for i, (tensor, result) in enumerate(zip(tensors, results, strict=True)):
            assert (tensor == 2 * i).all()
            result[0] = -1
            assert tensor[0] == -1
        del results, result, tensor
        pool.close()
        pool.join()


def test_pipes(ctx: Any) -> None:
    ours, theirs = ctx.Pipe()
    process = ctx.Process(target=torch_targets.add_through_a_pipe, args=(theirs,))
    process.start()
    tensor = torch.zeros(3_000)
    ours.send(tensor)
    whole, part = ours.recv()
    assert (tensor == 1).all()
    part[0] = 5
    assert whole[1] == tensor[1] == 5
    ours.send("end")
    process.join(DEADLINE)
    assert process.exitcode == 0
    ours.close()
    theirs.close()


def test_sending_from_several_threads_at_once() -> None:
    queue = fmp.Queue()
    tensor = torch.zeros(500_000)
    start = threading.Barrier(4)

    def send() -> None:
        start.wait()
        for _ in range(5):
            queue.put(tensor)

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tensor[0] = 3
    for _ in range(20):
        assert queue.get(timeout=5)[0] == 3


# --- leases


def kept_storages() -> int:
    """Of either strategy."""
    return int(forklift.stats()["blocks"]) + int(_core._segments.stats()[0])


def test_leases_return_with_the_storages() -> None:
    queue = fmp.Queue()
    gc.collect()
    before, kept = forklift.stats(), kept_storages()
    tensors = [torch.zeros(size) for size in (1, 100, 5_000, 100_000)]
    queue.put(tensors)
    got = queue.get(timeout=5)
    inner = got[2][5:]
    queue.put([*got, inner])
    again = queue.get(timeout=5)
    assert kept_storages() == kept + 4
    del got, again, tensors
    gc.collect()
    assert kept_storages() == kept + 1
    del inner
    gc.collect()
    after = forklift.stats()
    assert {k: after[k] for k in ("blocks", "leases")} == {k: before[k] for k in ("blocks", "leases")}


def test_thousands_of_tensors_under_few_descriptors() -> None:
    out = support.run_python(
        """
        import resource
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        import torch, forklift, torch_targets
        from forklift.multiprocessing import get_context
        ctx = get_context("fork")
        there, back = ctx.Queue(), ctx.Queue()
        process = ctx.Process(target=torch_targets.echo, args=(there, back))
        process.start()
        kept = [torch.full((10,), float(i)) for i in range(3000)]
        for tensor in kept:
            there.put(tensor)
        got = [back.get(timeout=30) for _ in kept]
        there.put(kept[:900])
        got += back.get(timeout=30)
        for i, tensor in enumerate(kept):
            tensor.add_(1)
            assert got[i][0] == i + 1
        there.put(torch_targets.STOP)
        process.join(20)
        del got, kept, tensor
        print(forklift.stats()["blocks"], forklift.audit(), process.exitcode)
        """
    )
    assert out.split() == ["0", "[]", "0"]

"""The programs of the documents of torch.multiprocessing, with only the import changed.

`python torch_documents.py sender` is the one that these call correct, and `... middle` the parts that they
call "not going to work", in one program. DEVICE in the environment: cuda, or cpu.
"""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any

import forklift.multiprocessing as mp
import torch

if os.environ.get("DEVICE", "cuda") == "cuda":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch has a newer name for it
        torch.set_default_tensor_type(torch.cuda.FloatTensor)


def sender(q: Any, e: Any) -> None:
    for _ in range(10):
        s_sample = [torch.zeros(1), torch.ones(1)]
        q.put(s_sample)
        e.wait()
        del s_sample
        e.clear()


def receiver() -> None:
    ctx = mp.get_context("spawn")
    q = ctx.Queue()
    e = ctx.Event()
    p = ctx.Process(target=sender, args=(q, e))
    p.start()
    for i in range(10):
        r_sample = q.get()
        print(f"=== ITER {i} ===", [x.item() for x in r_sample])
        del r_sample
        e.set()
    p.join()
    print(p.exitcode)


def producer(queue: Any) -> None:
    for i in range(3):
        queue.put(torch.full((4,), float(i)))


def forwarder(queue: Any, queue_2: Any) -> None:
    for _ in range(3):
        x = queue.get()
        queue_2.put(x)


def middle() -> None:
    ctx = mp.get_context("spawn")
    queue, queue_2 = ctx.Queue(), ctx.Queue()
    p = ctx.Process(target=producer, args=(queue,))
    p.start()
    p.join()  # nobody has received anything yet
    p = ctx.Process(target=forwarder, args=(queue, queue_2))
    p.start()
    kept = [queue_2.get() for _ in range(3)]  # the others are all gone, or go now
    p.join()
    print([x.tolist() for x in kept])
    tensor = torch.zeros(2)
    queue.put(tensor)
    x = queue.get()
    x += 3
    print(tensor.tolist())


if __name__ == "__main__":
    {"sender": receiver, "middle": middle}[sys.argv[1]]()

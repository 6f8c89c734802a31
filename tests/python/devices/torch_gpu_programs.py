"""Programs with torch's tensors on a GPU for test_torch_devices.py: `torch_gpu_programs.py NAME [METHOD]`.

Order, deaths, forks, and what is done without torch's own functions. DEVICE is that of torch_programs.py.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import forklift.multiprocessing as mp
import torch
from torch_programs import DEVICE, show, start, there

# --- order, deaths, memory


def fill_late(queue: Any, count: int) -> None:
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for i in range(count):
            x = torch.zeros(1 << 20, device=DEVICE)
            torch.cuda._sleep(20_000_000)
            x += i
            queue.put(x)


def streams(method: str) -> None:
    """What is queued on the sender's current stream is done, whatever stream that is."""
    queue = mp.get_context(method).Queue()
    process = start(method, fill_late, queue, 5)
    for i in range(5):
        x = queue.get()
        print(bool((x == i).all()))
        del x
    process.join()


def record(queue: Any, looked: Any) -> None:
    event = torch.cuda.Event(interprocess=True)
    x = torch.zeros(4, device=DEVICE)
    torch.cuda._sleep(200_000_000)
    x += 4
    event.record()
    queue.put((x, event))
    looked.wait()


def events(method: str) -> None:
    ctx = mp.get_context(method)
    queue, looked = ctx.Queue(), ctx.Event()
    process = start(method, record, queue, looked)
    x, event = queue.get()
    event.wait()
    torch.cuda.current_stream().synchronize()
    print(x.tolist(), event.query())
    del x, event
    looked.set()
    process.join()
    print(process.exitcode)


def hold_for_ever(queue: Any, sent: Any) -> None:
    queue.put(torch.arange(3.0, device=DEVICE))
    sent.set()
    signal.pause()


def producer_is_killed(method: str) -> None:
    """cudaMalloc's memory goes with a killed process; the receiver is told before it reads it."""
    ctx = mp.get_context(method)
    queue, sent = ctx.Queue(), ctx.Event()
    process = start(method, hold_for_ever, queue, sent)
    sent.wait()
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    try:
        print(queue.get(timeout=30).tolist())
    except Exception as error:
        print(type(error).__name__)


def forked_child(x: torch.Tensor, mine: Any, answers: Any) -> None:
    try:
        mine.send(x)
    except Exception as error:
        answers.put(type(error).__name__)


def forked() -> None:
    import forklift

    forklift.set_fork_policy("allow")
    ctx = mp.get_context("fork")
    x, answers = there(1), ctx.Queue()
    one, other = ctx.Pipe()
    mp.SimpleQueue().put(x)  # the parent has opened the device
    process = ctx.Process(target=forked_child, args=(x, one, answers))
    process.start()
    print(answers.get(timeout=30))
    process.join()
    other.close()


# --- how it is done


def short_way() -> None:
    from forklift import _core
    from forklift.adapters.torch import cuda

    _core._torch.meet()
    on_cpu = torch.zeros(3)
    with torch.inference_mode():
        inference = torch.zeros(3), there(1)
    keys = [torch._C._dispatch_keys(x).raw_repr() for x in (on_cpu, inference[0], there(1), inference[1])]
    outside, inside = cuda.plain_keys((keys[0], keys[1]))
    print(outside == keys[2], inside == keys[3])

    def refuse(*_: Any) -> Any:
        raise AssertionError("the long way")

    cuda.reduce_tensor = refuse
    queue = mp.SimpleQueue()
    for x in (there(1, 2), there(1, 2)[1:], torch.nn.Parameter(there(1))):
        queue.put(x)
        assert queue.get().tolist() == x.tolist()
    print("placed")


def take_in_a_stream(inbox: Any, outbox: Any) -> None:
    import ctypes

    driver = ctypes.CDLL("libcuda.so.1")
    torch.cuda.init()
    torch.zeros(1, device=DEVICE)
    handle = ctypes.c_void_p()
    assert driver.cuStreamCreate(ctypes.byref(handle), 1) == 0
    stream = torch.cuda.ExternalStream(handle.value)
    with torch.cuda.stream(stream):
        x = inbox.get()
        print(x.tolist(), flush=True)
    del stream
    assert driver.cuStreamDestroy_v2(handle) == 0
    del x  # its stream is gone
    outbox.put("alive")


def destroyed_stream(method: str) -> None:
    ctx = mp.get_context(method)
    first, second = ctx.Queue(), ctx.Queue()
    process = start(method, take_in_a_stream, first, second)
    first.put(there(1, 2))
    print(second.get(timeout=60))
    process.join()


# --- torch's allocator over Forklift's memory


def arena_producer(queue: Any, sent: Any) -> None:
    from forklift.adapters.torch import use_arena

    use_arena()
    x = torch.arange(4.0, device=DEVICE)
    queue.put(x)
    queue.put(x[2:])
    sent.set()
    signal.pause()


def arena(method: str) -> None:
    from forklift.adapters.torch import use_arena

    use_arena()
    ctx = mp.get_context(method)
    queue, sent = ctx.Queue(), ctx.Event()
    process = start(method, arena_producer, queue, sent)
    x = queue.get()
    sent.wait()
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    show("after its death:", x)
    show("in flight at its death:", queue.get())
    y = torch.randn(512, 512, device=DEVICE)
    print("computes:", bool(torch.allclose(y @ y.inverse(), torch.eye(512, device=DEVICE), atol=0.05)))


# --- other frameworks


def cupy_relay(inbox: Any, outbox: Any) -> None:
    x = inbox.get()
    x += 1
    outbox.put((type(x).__module__.partition(".")[0], x))


def cupy(method: str) -> None:
    import cupy

    ctx = mp.get_context(method)
    first, second = ctx.Queue(), ctx.Queue()
    process = start(method, cupy_relay, first, second)
    x = cupy.arange(3.0)
    first.put(x)
    name, y = second.get(timeout=60)
    process.join()
    print(name, y.tolist(), x.tolist(), type(y) is type(x))


def jax_relay(inbox: Any, outbox: Any) -> None:
    x = inbox.get()
    outbox.put((type(x).__name__, x + 1))


def jax(method: str) -> None:
    import jax.numpy as jnp

    ctx = mp.get_context(method)
    first, second = ctx.Queue(), ctx.Queue()
    process = start(method, jax_relay, first, second)
    first.put(jnp.arange(3.0))
    name, y = second.get(timeout=60)
    process.join()
    print(name, y.tolist(), y.devices().pop().platform)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])

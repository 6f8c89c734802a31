"""Programs for test_gpu_tensors.py: `python gpu_programs.py NAME [START METHOD]`."""

from __future__ import annotations

import sys
import types
from typing import Any

import forklift
import forklift.multiprocessing as mp
from forklift import DeviceEvent, Tensor, context, ops


def raised(call: Any) -> str:
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


def on_gpu(*values: float) -> Tensor:
    return Tensor([float(value) for value in values]).to("GPU")


# --- documents' programs


def produce(queue: Any) -> None:
    x = Tensor([0.0, 1.0, 2.0]).to("GPU")
    queue.put(x)
    queue.put(x)


def producer_ends(method: str) -> None:
    ctx = mp.get_context(method)
    queue = ctx.Queue()
    process = ctx.Process(target=produce, args=(queue,))
    process.start()
    opened = queue.get()  # while its producer lives, and one when it is gone
    process.join()
    for x in (opened, queue.get()):
        print(process.exitcode, x.device, x.tolist())


def relay(inbox: Any, outbox: Any) -> None:
    outbox.put(inbox.get())


def write(inbox: Any) -> None:
    x = inbox.get()
    x.fill(9)
    ops.add(x, 0, out=x)
    float(x[0])  # done, not only queued
    inbox.put("written")


def passed_on(method: str) -> None:
    ctx = mp.get_context(method)
    first, second = ctx.Queue(), ctx.Queue()
    process = ctx.Process(target=relay, args=(first, second))
    process.start()
    x = on_gpu(7, 7, 7)
    first.put(x)
    y = second.get()
    process.join()
    print(y.shape == x.shape, y.tolist())
    process = ctx.Process(target=write, args=(second,))
    second.put(y)
    process.start()
    process.join()
    print("written there:", x.tolist())


def one_process() -> None:
    queue = mp.get_context("spawn").Queue()
    x = on_gpu(1, 2)
    queue.put(x)
    queue.get().fill(3)
    print(x.tolist())


# --- every way


class Holder:
    def __init__(self, x: Tensor) -> None:
        self.x = x


def take_all(queue: Any, simple: Any, pipe: Any, topic: Any, argument: Tensor, answers: Any) -> None:
    subscription = topic.subscribe()
    answers.put("subscribed")
    found = {
        "Queue": queue.get(),
        "SimpleQueue": simple.get(),
        "Pipe": pipe.recv(),
        "Broadcast": subscription.get(),
        "argument": argument,
        "a dict in a list": queue.get()[0]["x"],
        "an object": queue.get().x,
    }
    for name, x in found.items():
        answers.put(f"{name} {x.device} {x.tolist()}")


def every_way(method: str) -> None:
    ctx = mp.get_context(method)
    queue, simple, answers = ctx.Queue(), ctx.SimpleQueue(), ctx.Queue()
    mine, its = ctx.Pipe()
    topic = forklift.Broadcast()
    x = on_gpu(1, 2)
    process = ctx.Process(target=take_all, args=(queue, simple, its, topic, x, answers))
    process.start()
    answers.get(timeout=30)
    queue.put(x)
    simple.put(x)
    mine.send(x)
    topic.put(x)
    queue.put([{"x": x}])
    queue.put(Holder(x))
    for _ in range(7):
        print(answers.get(timeout=30))
    process.join()


def double(x: Tensor) -> Tensor:
    return ops.multiply(x, 2)


def pool(method: str) -> None:
    ctx = mp.get_context(method)
    with ctx.Pool(2) as workers:
        results = workers.map(double, [on_gpu(i) for i in range(4)])
        print([float(x) for x in results])
        print(sorted({x.device for x in results}))
    del results
    memory = context.device_memory("GPU")
    given = context.trim_device("GPU")
    print("memory goes back:", memory["used_bytes"] == 0 and given == memory["pool_bytes"])


def rank(index: int, shared: Tensor, queue: Any) -> None:
    shared[index] = index
    float(shared[index])
    queue.put(index)


def ranks(method: str) -> None:
    queue = mp.get_context(method).Queue()
    shared = on_gpu(5, 5, 5)
    mp.start_processes(rank, args=(shared, queue), nprocs=3, start_method=method)
    print(shared.tolist())


# --- what is not to be done


def forked_child(x: Tensor, queue: Any) -> None:
    queue.put(raised(x.tolist))
    queue.put(context.get_context("device_target"))


def forked() -> None:
    ctx = mp.get_context("fork")
    context.set_context(device_target="GPU")
    forklift.set_fork_policy("allow")
    x = Tensor([1.0])
    queue = ctx.Queue()
    process = ctx.Process(target=forked_child, args=(x, queue))
    process.start()
    print(queue.get(timeout=30))
    print(queue.get(timeout=30))
    process.join()
    print("parent:", x.tolist())


def produce_with_event(queue: Any, looked: Any) -> None:
    context.set_context(device_handover="event")
    x, y = on_gpu(1, 1), on_gpu(4, 4)
    ready = DeviceEvent()
    ops.add(y, 0, out=x)
    ready.record()
    queue.put((x, ready))
    looked.wait()
    ready.synchronize()
    looked.clear()
    queue.put("done")
    looked.wait()


def events() -> None:
    ctx = mp.get_context("spawn")
    queue, looked = ctx.Queue(), ctx.Event()
    process = ctx.Process(target=produce_with_event, args=(queue, looked))
    process.start()
    x, ready = queue.get(timeout=30)
    print(ready.done())
    looked.set()
    queue.get(timeout=30)
    ready.wait()
    print(x.tolist())
    print(ready.done())
    looked.set()
    process.join()


# --- other frameworks


class Array:
    """As CuPy's: memory on a GPU, handed out by DLPack."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = Tensor.from_dlpack(tensor)

    def __dlpack__(self, **options: Any) -> Any:
        return self.tensor.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.tensor.__dlpack_device__()


Array.__module__ = "otherframework"
module = types.ModuleType("otherframework")
module.from_dlpack = Array  # type: ignore[attr-defined]
module.Array = Array  # type: ignore[attr-defined]
sys.modules["otherframework"] = module


def other_framework() -> None:
    queue = mp.get_context("spawn").Queue()
    x = on_gpu(1, 2, 3)
    queue.put(Array(x))
    array = queue.get()
    print(f"{type(array).__name__} of {array.tensor.size} on device {array.__dlpack_device__()[0]}")
    array.tensor.fill(5)
    print("same memory:", x.tolist() == [5.0, 5.0, 5.0])


def dlpack() -> None:
    held = [on_gpu(1, 2)]
    print(held[0].__dlpack_device__())
    print(raised(lambda: held[0].__dlpack__(dl_device=(2, 1))))
    print(Tensor.from_dlpack(held[0].__dlpack__(dl_device=(1, 0), max_version=(1, 0))).tolist())
    print(raised(lambda: held[0].__dlpack__(stream=0)))
    held.clear()
    print(context.device_memory()["used_bytes"] == 0)


def refused() -> None:
    print(raised(lambda: (on_gpu(1), context.set_context(device_target="GPU:3"))))
    print(raised(lambda: context.set_context(device_handover="never")))
    print(raised(lambda: context.device_memory("CPU")))
    print(raised(lambda: DeviceEvent("CPU")).partition(":")[0])
    print("RefusedError or", raised(lambda: on_gpu(1) + Tensor([1.0])).replace("invalid argument: ", ""))
    context.set_context(device_target="GPU")
    print(raised(lambda: forklift.empty([1 << 32])).partition(":")[0])
    import pickle

    print(raised(lambda: pickle.dumps(on_gpu(1))).partition(":")[0])


def failing() -> None:
    print(raised(lambda: on_gpu(1)))
    print(on_gpu(1).tolist())


def absent() -> None:
    print(context.devices())
    print(raised(lambda: Tensor([1.0])))


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])

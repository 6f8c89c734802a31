"""Programs with torch's tensors for test_torch_devices.py: `python torch_programs.py NAME [START METHOD]`.

DEVICE in the environment is torch's device for them: the same programs run on the CPU and on a GPU.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import forklift.multiprocessing as mp
import torch

DEVICE = os.environ.get("DEVICE", "cuda")


def there(*values: float) -> torch.Tensor:
    return torch.tensor([float(value) for value in values], device=DEVICE)


def show(what: str, tensor: Any) -> None:
    assert tensor.device.type == DEVICE, tensor.device
    print(what, tensor.tolist())


def start(method: str, target: Any, *args: Any) -> Any:
    process = mp.get_context(method).Process(target=target, args=args)
    process.start()
    return process


# --- what the documents say is "not going to work"


def produce(queue: Any) -> None:
    queue.put(torch.arange(3.0, device=DEVICE))


def producer_ends(method: str) -> None:
    queue = mp.get_context(method).Queue()
    process = start(method, produce, queue)
    process.join()
    x = queue.get()
    x += 1
    show(f"after the end ({process.exitcode}):", x)


def hold(queue: Any, got: Any) -> None:
    queue.put(torch.arange(3.0, device=DEVICE))
    got.wait()


def producer_of_an_opened_one_ends(method: str) -> None:
    ctx = mp.get_context(method)
    queue, got = ctx.Queue(), ctx.Event()
    process = start(method, hold, queue, got)
    x = queue.get()
    y = x * 2  # kept by this process
    got.set()
    del x
    process.join()
    show(f"of an opened one ({process.exitcode}):", y)


def relay(inbox: Any, outbox: Any) -> None:
    outbox.put(inbox.get())


def passed_on(method: str) -> None:
    ctx = mp.get_context(method)
    first, second = ctx.Queue(), ctx.Queue()
    process = start(method, relay, first, second)
    x = there(7, 7)
    first.put(x)
    y = second.get()
    process.join()
    y.fill_(9)
    show("passed on and written:", x)


def one_process(method: str) -> None:
    queue = mp.get_context(method).Queue()
    x = there(1, 2)
    queue.put(x)
    queue.get().fill_(3)
    show("put and got here:", x)


# --- every way, every kind


class Net(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(2, 1, bias=False, device=DEVICE)
        torch.nn.init.constant_(self.layer.weight, 2.0)
        self.register_buffer("seen", there(0))


def kinds() -> dict[str, Any]:
    base = torch.arange(12.0, device=DEVICE).reshape(3, 4)
    leaf = there(1, 2).requires_grad_()
    return {
        "a view": base[1:, ::2],
        "transposed": base.t(),
        "expanded": there(5).expand(3),
        "a leaf": leaf,
        "a parameter": torch.nn.Parameter(there(1)),
        "bfloat16": there(1.5).bfloat16(),
        "bool": there(1, 0) > 0,
        "complex": torch.complex(there(1), there(2)),
        "a conjugate": torch.complex(there(1), there(2)).conj(),
        "no elements": torch.empty(0, 3, device=DEVICE),
        "no dimensions": torch.tensor(4.0, device=DEVICE),
        "int8": there(-3).to(torch.int8),
    }


def describe(name: str, x: Any) -> str:
    assert x.device.type == DEVICE, (name, x.device)
    more = f" {x.requires_grad} {type(x).__name__}" if x.requires_grad else ""
    return f"{name}: {x.dtype} {tuple(x.shape)} {x.stride()} {x.tolist()}{more}"


def describe_all(inbox: Any, outbox: Any) -> None:
    for _ in range(inbox.get()):
        outbox.put(describe(*inbox.get()))


def every_kind(method: str) -> None:
    ctx = mp.get_context(method)
    there_, back = ctx.Queue(), ctx.Queue()
    process = start(method, describe_all, there_, back)
    sent = kinds()
    there_.put(len(sent))
    for name, x in sent.items():
        expected = describe(name, x)
        there_.put((name, x))
        found = back.get(timeout=60)
        print("same" if found == expected else f"expected {expected}, found {found}")
    process.join()


def take_all(queue: Any, simple: Any, pipe: Any, argument: Any, answers: Any) -> None:
    found = {
        "argument": argument,
        "Queue": queue.get(),
        "SimpleQueue": simple.get(),
        "Pipe": pipe.recv(),
        "a storage": torch.empty(0, device=DEVICE).set_(queue.get()),
    }
    net = queue.get()
    found["a module"] = net.layer(there(1, 1)).detach()
    one, other = queue.get()
    one.fill_(8)
    found["one storage"] = other
    for name, x in found.items():
        answers.put(f"{name} {x.device.type == DEVICE} {x.tolist()}")
    with torch.no_grad():
        net.seen += 1
        net.layer.weight.fill_(3)
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    answers.put("written")


def every_way(method: str) -> None:
    ctx = mp.get_context(method)
    queue, simple, answers = ctx.Queue(), ctx.SimpleQueue(), ctx.Queue()
    mine, its = ctx.Pipe()
    x = there(1, 2)
    net = Net()
    process = start(method, take_all, queue, simple, its, x, answers)
    for put in (queue.put, simple.put, mine.send):
        put(x)
    queue.put(x.untyped_storage())
    queue.put(net)
    both = torch.zeros(3, device=DEVICE)
    queue.put([both[:1], both[1:]])
    for _ in range(8):
        print(answers.get(timeout=60))
    process.join()
    show("the module's parts:", torch.cat([net.seen, net.layer.weight.flatten()]))


def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def pool(method: str) -> None:
    with mp.get_context(method).Pool(2) as workers:
        results = workers.map(double, [there(i) for i in range(4)])
        print([x.tolist() for x in results])


def rank(index: int, shared: torch.Tensor) -> None:
    shared[index] = index
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def ranks(method: str) -> None:
    shared = there(5, 5, 5)
    mp.start_processes(rank, args=(shared,), nprocs=3, start_method=method)
    show("ranks:", shared)


# --- many


def consume(queue: Any, answers: Any) -> None:
    total = 0.0
    while (x := queue.get()) is not None:
        total += x[0].item()
        del x
    answers.put(total)


def many(method: str) -> None:
    """Memory that is not wanted any more is torch's again."""
    ctx = mp.get_context(method)
    queue, answers = ctx.Queue(4), ctx.Queue()
    process = start(method, consume, queue, answers)
    for i in range(300):
        queue.put(torch.full((1 << 20,), float(i), device=DEVICE))
    queue.put(None)
    print(answers.get(timeout=60))
    process.join()
    if DEVICE == "cuda":
        queue.put(there(1))
        queue.get()
        print("reserved at most 200 MB:", torch.cuda.memory_reserved() < 200 << 20)


# --- a DataLoader


class Numbers(torch.utils.data.Dataset):  # type: ignore[misc]
    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> Any:
        return torch.full((100_000,), float(index)), index


def loader(method: str) -> None:
    from forklift.adapters.torch import DataLoader

    loader = DataLoader(
        Numbers(), batch_size=4, num_workers=2, pin_memory=DEVICE == "cuda", multiprocessing_context=method
    )
    total, pinned = 0.0, set()
    for values, _ in loader:
        pinned.add(values.is_pinned())
        total += values.to(DEVICE, non_blocking=True)[:, -1].sum().item()
    print(total, pinned == {DEVICE == "cuda"})


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])

"""Functions that the children of the torch tests run, imported by name. `targets` has those without torch."""

from __future__ import annotations

import os
import sys
from typing import Any

STOP = "stop, please"


def echo(there: Any, back: Any) -> None:
    while True:
        value = there.get()
        if isinstance(value, str) and value == STOP:
            return
        back.put(value)


def add_one(there: Any, back: Any) -> None:
    """Add one to each received tensor in place, and report each, until STOP."""
    import torch

    torch.set_num_threads(1)  # OpenMP does not survive a fork
    while True:
        value = there.get()
        if isinstance(value, str) and value == STOP:
            return
        with torch.no_grad():
            value.add_(1)
        del value
        back.put("done")


def add_through_a_pipe(connection: Any) -> None:
    value = connection.recv()
    value.add_(1)
    connection.send([value, value[1:]])
    connection.recv()


def hold_until(there: Any, back: Any) -> None:
    """Receive a tensor, and answer with its elements at once and at each request."""
    value = there.get()
    back.put(value.tolist())
    while there.get() != STOP:
        back.put(value.tolist())


def storages(there: Any, back: Any) -> None:
    """Answer each message with the number of storages, and each tensor's offset and storage size."""
    while True:
        message = there.get()
        if isinstance(message, str):
            return
        back.put(
            (
                len({t.untyped_storage()._cdata for t in message}),
                [t.storage_offset() for t in message],
                [t.untyped_storage().nbytes() for t in message],
            )
        )
        del message


def send_and_leave(queue: Any, seed: int) -> None:
    import torch

    queue.put(torch.full((3_000,), float(seed)))
    os._exit(0)


def killed_with(queue: Any, told: Any) -> None:
    kept = queue.get()
    told.put(kept[0].item())
    os.kill(os.getpid(), 9)


def check_ends(queue: Any, value: float) -> None:
    tensor = queue.get()
    assert tensor[0].item() == tensor[-1].item() == value


def train(model: Any, steps: int) -> None:
    """A Hogwild worker: all workers update the same parameters."""
    import torch

    torch.set_num_threads(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(steps):
        optimizer.zero_grad()
        x = torch.randn(8, 3)
        ((model(x) - x.sum(1, keepdim=True)) ** 2).mean().backward()
        optimizer.step()


def train_from_queue(queue: Any, steps: int) -> None:
    train(queue.get(), steps)


def was_imported(queue: Any, answer: Any) -> None:
    """Answer whether torch was imported before the tensor came, and the tensor's type and values."""
    before = "torch" in sys.modules
    value = queue.get()
    answer.put((before, type(value).__name__, value.tolist()))


def fill_argument(tensor: Any, value: float) -> None:
    tensor.fill_(value)


def total(tensor: Any) -> float:
    return float(tensor.sum())


def doubled(tensor: Any) -> Any:
    return tensor.mul_(2)


class Box:
    """A class of the program's that holds a tensor."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor


def tagged_class() -> Any:
    """A subclass of torch.Tensor that a fresh interpreter finds by name."""
    return globals().get("Tagged") or __getattr__("Tagged")


def __getattr__(name: str) -> Any:
    if name != "Tagged":
        raise AttributeError(name)
    import torch

    class Tagged(torch.Tensor):
        pass

    Tagged.__qualname__ = "Tagged"
    globals()["Tagged"] = Tagged
    return Tagged


def two_tensors_class() -> Any:
    """A subclass with a ``__torch_dispatch__`` whose elements lie in two tensors."""
    if "TwoTensors" in globals():
        return globals()["TwoTensors"]
    import torch
    from torch.utils import _pytree

    class TwoTensors(torch.Tensor):
        first: Any
        second: Any

        @staticmethod
        def __new__(cls: type, first: Any, second: Any) -> Any:
            return torch.Tensor._make_wrapper_subclass(cls, first.shape, dtype=first.dtype)

        def __init__(self, first: Any, second: Any) -> None:
            self.first = first
            self.second = second

        @classmethod
        def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            def pick(name: str) -> Any:
                parts = _pytree.tree_map_only(cls, lambda t: getattr(t, name), (args, kwargs or {}))
                return function(*parts[0], **parts[1])

            first, second = pick("first"), pick("second")
            return cls(first, second) if isinstance(first, torch.Tensor) else first

        def __reduce_ex__(self, protocol: Any) -> Any:
            return _rebuild_two_tensors, (self.first, self.second)

    TwoTensors.__qualname__ = "TwoTensors"
    globals()["TwoTensors"] = TwoTensors
    return TwoTensors


def _rebuild_two_tensors(first: Any, second: Any) -> Any:
    return globals()["TwoTensors"](first, second)

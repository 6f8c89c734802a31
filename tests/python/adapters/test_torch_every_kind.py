"""Every kind of CPU tensor: what arrives is what was sent, and its memory is shared. torch is the control."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any

import forklift.multiprocessing as fmp
import pytest
import torch_targets
from torch_support import torch

Tagged = torch_targets.tagged_class()
TwoTensors = torch_targets.two_tensors_class()


def compressed(layout: Any) -> Any:
    dense = torch.eye(4) + torch.eye(4).roll(1, 0)
    blocks = (2, 2) if layout in (torch.sparse_bsr, torch.sparse_bsc) else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "sparse CSR support is in beta state"
        return dense.to_sparse(layout=layout, blocksize=blocks)


def uncoalesced() -> Any:
    return torch.sparse_coo_tensor(torch.tensor([[0, 0, 2]]), torch.tensor([1.0, 2.0, 3.0]), (4,))


def jagged() -> Any:
    return torch.nested.nested_tensor([torch.ones(2, 3), torch.zeros(4, 3)], layout=torch.jagged)


KINDS: dict[str, Callable[[], Any]] = {
    "strided": lambda: torch.arange(24.0).reshape(2, 3, 4)[:, 1:, ::2],
    "expanded": lambda: torch.ones(3, 1).expand(3, 5),
    "no elements": lambda: torch.zeros(3, 0, 2),
    "no dimensions": lambda: torch.tensor(2.5),
    "coo": lambda: torch.eye(4).to_sparse(),
    "coo, not coalesced": uncoalesced,
    "csr": lambda: compressed(torch.sparse_csr),
    "csc": lambda: compressed(torch.sparse_csc),
    "bsr": lambda: compressed(torch.sparse_bsr),
    "bsc": lambda: compressed(torch.sparse_bsc),
    "nested": lambda: torch.nested.nested_tensor([torch.ones(2), torch.zeros(3)]),
    "jagged": jagged,
    "quantized": lambda: torch.quantize_per_tensor(torch.arange(6.0), 0.5, 1, torch.qint8),
    "quantized by channel": lambda: torch.quantize_per_channel(
        torch.ones(2, 3), torch.tensor([0.5, 0.25]), torch.tensor([0, 1]), 0, torch.quint8
    ),
    "parameter": lambda: torch.nn.Parameter(torch.ones(3)),
    "frozen parameter": lambda: torch.nn.Parameter(torch.ones(3), requires_grad=False),
    "parameter of integers": lambda: torch.nn.Parameter(torch.arange(3), requires_grad=False),
    "leaf": lambda: torch.ones(3, requires_grad=True),
    "subclass": lambda: torch.ones(5).as_subclass(Tagged),
    "wrapper": lambda: TwoTensors(torch.ones(2, 3), torch.zeros(2, 3)),
    "complex": lambda: torch.tensor([1 + 2j, 3 - 4j]),
}
# With torch these arrive as tensors that cannot be used.
LOST_BY_TORCH = dict.fromkeys(("quantized", "quantized by channel"), "the quantizer does not travel")


def facts(tensor: Any) -> dict[str, Any]:
    """What can be told of any tensor, its elements included."""
    said = {
        "class": type(tensor),
        "dtype": tensor.dtype,
        "layout": tensor.layout,
        "requires_grad": tensor.requires_grad,
        "is_leaf": tensor.is_leaf,
    }
    if isinstance(tensor, TwoTensors):
        return said | {"elements": (tensor.first.tolist(), tensor.second.tolist())}
    if tensor.is_nested:
        return said | {"elements": [part.tolist() for part in tensor.unbind()]}
    said["shape"] = tensor.shape
    if tensor.is_quantized:
        said["scheme"] = tensor.qscheme()
        return said | {"elements": tensor.dequantize().tolist(), "raw": tensor.int_repr().tolist()}
    if tensor.layout == torch.strided:
        said["strides"] = tensor.stride()
        return said | {"elements": tensor.tolist()}
    if tensor.layout == torch.sparse_coo:
        said["coalesced"] = tensor.is_coalesced()
    return said | {"elements": tensor.to_dense().tolist()}


@pytest.mark.parametrize("name", KINDS)
def test_what_arrives_is_what_was_sent(torch_both: Any, name: str) -> None:
    if name in LOST_BY_TORCH and torch_both is not fmp.get_context("fork"):
        pytest.skip(f"torch: {LOST_BY_TORCH[name]}")
    sent = KINDS[name]()
    queue = torch_both.SimpleQueue()
    queue.put([sent, {"again": sent}])
    got, again = queue.get()
    queue.close()
    assert facts(got) == facts(sent)
    assert again["again"] is got


@pytest.mark.parametrize("name", KINDS)
def test_no_kind_needs_a_descriptor(name: str) -> None:
    queue = fmp.SimpleQueue()
    queue.put(KINDS[name]())
    queue.get()
    before = len(os.listdir("/proc/self/fd"))
    kept = []
    for _ in range(10):
        queue.put(KINDS[name]())
        kept.append(queue.get())
    assert len(os.listdir("/proc/self/fd")) == before
    queue.close()


PARTS: dict[str, Callable[[Any], Any]] = {
    "coo": lambda t: t._values(),
    "csr": lambda t: t.values(),
    "csc": lambda t: t.values(),
    "bsr": lambda t: t.values(),
    "jagged": lambda t: t.values(),
    "subclass": lambda t: t,
    "wrapper": lambda t: t.first,
    "parameter": lambda t: t.detach(),
}


@pytest.mark.parametrize("name", PARTS)
def test_the_parts_are_shared(torch_both: Any, name: str) -> None:
    sent = KINDS[name]()
    queue = torch_both.SimpleQueue()
    queue.put(sent)
    got = queue.get()
    queue.close()
    PARTS[name](got).fill_(7)
    assert bool((PARTS[name](sent) == 7).all())


def test_meta_tensors(torch_both: Any) -> None:
    queue = torch_both.SimpleQueue()
    queue.put(torch.empty(4, 6, device="meta", dtype=torch.float16)[1:, ::2])
    got = queue.get()
    queue.put([torch.nn.Parameter(torch.empty(2, device="meta"))])
    parameter = queue.get()[0]
    queue.close()
    assert (got.device.type, got.dtype, got.shape, got.stride()) == ("meta", torch.float16, (3, 3), (6, 2))
    assert isinstance(parameter, torch.nn.Parameter)
    assert parameter.requires_grad


@pytest.mark.parametrize("kind", ["functional", "zero"])
def test_tensors_that_have_no_memory_are_refused(kind: str) -> None:
    """torch crashes on these. The queue goes on."""
    if kind == "functional":
        tensor = torch._to_functional_tensor(torch.ones(3))
    else:
        tensor = torch._efficientzerotensor(3)
    queue = fmp.SimpleQueue()
    for message in (tensor, [tensor]):
        with pytest.raises((RuntimeError, NotImplementedError, TypeError)):
            queue.put(message)
    queue.put("fine")
    assert queue.get() == "fine"
    queue.close()

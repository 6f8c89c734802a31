"""torch's parameters, modules, storages, subclasses and rarer kinds, on every start method."""

from __future__ import annotations

import warnings
from typing import Any

import forklift.multiprocessing as fmp
import pytest
import support
import torch_targets
from forklift import _core
from torch_support import DEADLINE, finish, run, tmp, torch

# --- parameters, modules, storages


def test_parameters_and_gradients(torch_echo: Any) -> None:
    for tensor in (
        torch.nn.Parameter(torch.ones(3, 4)),
        torch.nn.Parameter(torch.ones(4, dtype=torch.int64), requires_grad=False),
        torch.ones(3, requires_grad=True),
        torch.ones(3),
    ):
        got = torch_echo(tensor)
        assert type(got) is type(tensor)
        assert got.requires_grad == tensor.requires_grad
        assert got.is_leaf
        assert got.grad is None
        with torch.no_grad():
            got.add_(1)
        assert (tensor == 2).all()


def test_a_tensor_with_a_history_is_refused_as_torch_refuses_it(ctx: Any) -> None:
    weight = torch.ones(3, requires_grad=True)
    errors = []
    for queue in (tmp.get_context("fork").SimpleQueue(), ctx.SimpleQueue(), ctx.Queue(strict=True)):
        for message in (weight * 2, [weight * 2], {"a": (weight * 2, 1)}, (weight * 2)[1:]):
            with pytest.raises(RuntimeError, match="Cowardly") as caught:
                queue.put(message)
            errors.append(str(caught.value))
        queue.close()
    assert len(set(errors)) == 1


def test_modules_and_state_dicts(torch_echo: Any) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 4))
    model[2].weight = torch.nn.Parameter(torch.eye(4))
    model.append(torch.nn.Linear(4, 4, bias=False))
    model[3].weight = model[2].weight
    got = torch_echo(model)
    assert got[3].weight is got[2].weight
    state = model.state_dict()
    back = torch_echo(state)
    assert list(back) == list(state)
    with torch.no_grad():
        for parameter in got.parameters():
            parameter.fill_(0.5)
    for name, value in model.named_parameters():
        assert (value == 0.5).all(), name
        assert torch.equal(back[name], value)
    assert got[1].num_batches_tracked.dtype is torch.int64


def test_hogwild() -> None:
    ctx = fmp.get_context("fork")
    torch.manual_seed(0)
    queue = ctx.Queue()
    model = torch.nn.Linear(3, 1)
    workers = [ctx.Process(target=torch_targets.train_from_queue, args=(queue, 150)) for _ in range(2)]
    for worker in workers:
        worker.start()
        queue.put(model)
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    assert torch.allclose(model.weight, torch.ones(1, 3), atol=0.2)


def test_storages(torch_echo: Any) -> None:
    tensor = torch.arange(6, dtype=torch.int32)
    for storage in (tensor.untyped_storage(), tensor.storage(), torch.FloatStorage([1.0, 2.0])):
        got = torch_echo(storage)
        assert type(got) is type(storage)
        assert got.tolist() == storage.tolist()
    got = torch_echo(tensor.untyped_storage())
    got[0] = 9
    assert tensor[0] == 9
    assert torch_echo(torch.UntypedStorage(0)).nbytes() == 0


Tagged = torch_targets.tagged_class()


def test_subclasses_and_rarer_kinds_go_torchs_way() -> None:
    queue = fmp.Queue()
    tagged = torch.ones(5).as_subclass(Tagged)
    tagged.tag = "kept"
    queue.put(tagged)
    got = queue.get(timeout=5)
    assert type(got) is Tagged
    assert got.tag == "kept"
    got[0] = 7
    assert tagged[0] == 7
    sparse = torch.eye(4).to_sparse()
    queue.put(sparse)
    assert torch.equal(queue.get(timeout=5).to_dense(), torch.eye(4))
    csr = torch.eye(4).to_sparse_csr()
    queue.put([csr])
    assert torch.equal(queue.get(timeout=5)[0].to_dense(), torch.eye(4))
    meta = torch.empty(3, device="meta")
    queue.put(meta)
    assert queue.get(timeout=5).device.type == "meta"


def test_conjugate_and_negative_views(torch_echo: Any) -> None:
    # torch's reduction sends the memory alone, so that the elements arrive unconjugated, without a word.
    number = torch.tensor([1 + 2j, 3 - 4j])
    for view in (number.conj(), number.conj().imag, number.conj().imag[1:], torch._neg_view(number.conj())):
        got = torch_echo(view)
        assert got.tolist() == view.tolist()
        assert (got.is_conj(), got.is_neg()) == (view.is_conj(), view.is_neg())
    torch_echo(number.conj())[0] = 5 + 6j
    assert number[0] == 5 - 6j
    leaf = number.conj().detach().requires_grad_()
    got = torch_echo({"leaf": leaf})["leaf"]
    assert got.requires_grad
    assert got.is_leaf
    assert got.is_conj()
    with pytest.raises(RuntimeError, match="non-leaf"):
        fmp.SimpleQueue().put([(leaf * 2).conj()])


def test_inference_mode_and_modes(torch_echo: Any) -> None:
    with torch.inference_mode():
        tensor = torch.ones(4)
        got = torch_echo(tensor)
        assert torch.equal(got, tensor)
    with torch.device("cpu"):
        got = torch_echo([torch.ones(3, requires_grad=True), torch.zeros(4)[1:]])
    assert got[0].requires_grad
    assert got[1].shape == (3,)


def test_on_every_start_method(ctx: Any) -> None:
    there, back, process = run(ctx, torch_targets.echo)
    base = torch.arange(60.0).reshape(3, 4, 5)
    shared = torch.zeros(3)
    model = torch.nn.Linear(3, 2)
    kinds = [
        torch.zeros(0, 3),
        torch.tensor(2.5),
        base[1:, ::2, 3],
        torch.arange(8, dtype=torch.bfloat16),
        torch.nn.Parameter(torch.ones(2)),
        [shared, shared],
        {"module": model, "state": model.state_dict()},
        torch.arange(4).untyped_storage(),
        torch.ones(5).as_subclass(Tagged),
        torch.eye(3).to_sparse(),
    ]
    for kind in kinds:
        there.put(kind)
        got = back.get(timeout=60)
        assert type(got) is type(kind)
        if isinstance(kind, torch.Tensor):
            assert torch.equal(got.to_dense(), kind.to_dense())
            assert got.requires_grad == kind.requires_grad
    there.put(shared)
    back.get(timeout=DEADLINE).fill_(4)
    assert shared.tolist() == [4, 4, 4]
    finish(there, back, process)


def test_a_graph_that_looks_at_what_moves(torch_both: Any) -> None:
    queue = torch_both.SimpleQueue()
    weight = torch.arange(1.0, 4.0, requires_grad=True)
    loss = (weight * weight).sum()
    queue.put(weight)
    got = queue.get()
    assert got.requires_grad
    loss.backward()
    assert weight.grad.tolist() == [2, 4, 6]
    queue.put(weight.grad)
    assert queue.get().tolist() == [2, 4, 6]


def test_buffers(torch_echo: Any) -> None:
    module = torch.nn.Module()
    module.register_buffer("steps", torch.zeros(3))
    if hasattr(torch.nn, "Buffer"):
        module.mean = torch.nn.Buffer(torch.ones(2))
    got = torch_echo(module)
    assert [name for name, _ in got.named_buffers()] == [name for name, _ in module.named_buffers()]
    got.steps[1] = 4
    assert module.steps.tolist() == [0, 4, 0]


def test_hooks_are_torchs_business() -> None:
    hooked = torch.ones(2, requires_grad=True)
    hooked.register_hook(print)
    told = []
    for queue in (tmp.get_context("fork").SimpleQueue(), fmp.SimpleQueue()):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            queue.put([hooked])
        told.append([str(one.message) for one in caught])
        assert queue.get()[0].tolist() == [1, 1]
        queue.close()
    assert told[0] == told[1]
    assert "hook" in told[0][0]


def test_nested_tensors(torch_both: Any) -> None:
    queue = torch_both.SimpleQueue()
    nested = torch.nested.nested_tensor([torch.ones(2), torch.zeros(3)])
    queue.put(nested)
    assert [part.tolist() for part in queue.get().unbind()] == [[1, 1], [0, 0, 0]]


def test_tensors_that_only_the_message_holds(torch_echo: Any) -> None:
    """Tensors without another reference, and what a reducer of the program's own sends along."""
    assert torch_echo([torch.full((2_000,), 3.0)])[0].sum() == 6_000
    got = torch_echo({"nested": (torch.ones(4), [torch_targets.Box(torch.zeros(5))])})
    assert got["nested"][1][0].tensor.tolist() == [0] * 5


def test_the_local_part_of_a_dtensor() -> None:
    """By itself and within its DTensor; in a process of its own, since the process group has threads."""
    said = support.run_python(
        """
        import torch
        import torch.distributed as dist
        import torch.multiprocessing
        import forklift.multiprocessing
        from forklift import _core
        from torch.distributed import HashStore
        from torch.distributed.tensor import DTensor, Shard, init_device_mesh

        dist.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
        mesh = init_device_mesh("cpu", (1,))
        for module in (torch.multiprocessing, forklift.multiprocessing):
            whole = DTensor.from_local(torch.arange(6.0).reshape(2, 3), mesh, [Shard(0)])
            queue = module.get_context("fork").SimpleQueue()
            queue.put([whole.to_local(), whole])
            local, again = queue.get()
            assert type(local) is torch.Tensor and type(again) is DTensor
            local[0, 0] = 42
            assert whole.to_local()[0, 0] == again.to_local()[0, 0] == 42
            assert again.placements == whole.placements
            del local, again
        storage = whole.to_local().untyped_storage()
        print("held", _core._torch.held(storage._cdata, storage.data_ptr()))
        dist.destroy_process_group()
        """
    )
    assert said.strip() == "held True"


@pytest.mark.parametrize("kind", [torch.UntypedStorage, torch.FloatStorage])
def test_new_shared_storages_are_forklifts(kind: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of typed storages
        storage = kind._new_shared(100)
        untyped = storage if kind is torch.UntypedStorage else storage.untyped()
    assert storage.is_shared()
    assert len(storage) == 100
    assert _core._torch.held(untyped._cdata, untyped.data_ptr())
    queue = fmp.SimpleQueue()
    queue.put(storage)
    got = queue.get()
    got[7] = 1
    assert storage[7] == 1
    queue.close()

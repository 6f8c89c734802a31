"""A storage is one object in a process, however often and by whatever way it arrives. torch is a control."""

from __future__ import annotations

import gc
import io
import threading
from typing import Any

import forklift.multiprocessing as fmp
import pytest
from torch_support import is_held, torch


def receive_twice(context: Any, tensor: Any) -> tuple[Any, Any]:
    queue = context.SimpleQueue()
    queue.put(tensor)
    first = queue.get()
    queue.put(tensor)
    second = queue.get()
    queue.close()
    return first, second


def address(tensor: Any) -> int:
    return int(tensor.untyped_storage()._cdata)


def test_two_messages_bring_one_storage(torch_both: Any) -> None:
    sent = torch.zeros(1_000)
    first, second = receive_twice(torch_both, sent)
    assert address(first) == address(second) == address(sent)
    assert first.is_set_to(second)
    assert first.untyped_storage() is second.untyped_storage()


def test_parts_of_a_storage_in_several_messages(torch_both: Any) -> None:
    whole = torch.arange(100.0)
    queue = torch_both.SimpleQueue()
    parts = [whole[2:7], whole.view(10, 10).t(), whole[100:], {"again": whole}]
    got = []
    for part in parts:
        queue.put(part)
        got.append(queue.get())
    queue.close()
    assert {address(t) for t in (*got[:3], got[3]["again"])} == {address(whole)}
    assert [t.storage_offset() for t in got[:3]] == [2, 0, 100]
    assert got[1].stride() == (1, 10)
    assert torch.equal(got[0], whole[2:7])


def test_a_storage_by_itself_and_its_tensor(torch_both: Any) -> None:
    sent = torch.arange(50.0)
    queue = torch_both.SimpleQueue()
    queue.put(sent)
    tensor = queue.get()
    queue.put(sent.untyped_storage())
    storage = queue.get()
    queue.close()
    assert storage._cdata == address(tensor)


def test_torch_sees_that_two_receipts_overlap(torch_both: Any) -> None:
    first, second = receive_twice(torch_both, torch.zeros(1_000))
    with pytest.raises(RuntimeError, match=r"overlap|single memory location"):
        torch.add(first[:-1], 1, out=second[1:])


def test_saving_two_receipts_keeps_the_aliasing(torch_both: Any) -> None:
    file = io.BytesIO()
    torch.save(list(receive_twice(torch_both, torch.zeros(1_000))), file)
    file.seek(0)
    first, second = torch.load(file)
    first.fill_(7)
    assert second.sum() == 7_000


@pytest.mark.filterwarnings("ignore")  # of the compiler's own making
def test_compiled_code_sees_that_two_receipts_are_one(
    torch_both: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tqdm.tqdm.monitor_interval", 0)  # a thread for the compiler's bar
    first, second = receive_twice(torch_both, torch.zeros(8))

    @torch.compile(backend="aot_eager")
    def both(a: Any, b: Any) -> Any:
        c = b * 5
        a.add_(1)
        return c + b * 2

    assert both(first, second).tolist() == [2.0] * 8
    torch.compiler.reset()


def test_a_storage_that_died_is_made_anew() -> None:
    queue = fmp.SimpleQueue()
    sent = torch.arange(1_000)
    for _ in range(3):
        queue.put(sent)
        expected = sent.clone()
        del sent
        gc.collect()
        sent = queue.get()
        assert torch.equal(sent, expected)
        assert is_held(sent)
    queue.close()


def test_a_storage_that_its_sender_has_given_up() -> None:
    queue = fmp.SimpleQueue()
    sent = torch.arange(1_000)
    queue.put(sent)
    queue.put(sent)
    first = queue.get()
    sent.data = torch.zeros(3, dtype=torch.int64)  # the block is only in the messages and in `first` now
    second = queue.get()
    queue.close()
    assert address(first) == address(second)
    assert second[999] == 999


def test_receipts_while_other_threads_drop_theirs() -> None:
    """A storage dies in one thread just when another one receives its block."""
    queue = fmp.SimpleQueue()
    sent = torch.arange(64.0)
    queue.put(sent)
    del sent
    kept = [queue.get()]
    wrong: list[object] = []

    def receive() -> None:
        try:
            for _ in range(1_500):
                with lock:
                    queue.put(kept[0])
                    got = queue.get()
                    kept[0] = got
                if got[63] != 63:
                    wrong.append(got)
        except Exception as error:
            wrong.append(error)

    lock = threading.Lock()
    threads = [threading.Thread(target=receive) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    queue.close()
    assert not wrong


def test_an_empty_view_keeps_its_offset(torch_both: Any) -> None:
    whole = torch.zeros(10, 3)
    queue = torch_both.SimpleQueue()
    for view in (whole[4:4], whole[10:], whole[2, 1:1]):
        queue.put(view)
        got = queue.get()
        assert (got.storage_offset(), got.shape, got.stride()) == (
            view.storage_offset(),
            view.shape,
            view.stride(),
        )
    queue.close()


@pytest.mark.parametrize("kind", ["whole", "view", "parameter", "frozen"])
def test_a_received_tensor_was_written_to_once(torch_both: Any, kind: str) -> None:
    sent: Any = torch.zeros(10)
    if kind == "view":
        sent = sent[3:]
    elif kind == "parameter":
        sent = torch.nn.Parameter(sent)
    elif kind == "frozen":
        sent = torch.nn.Parameter(sent, requires_grad=False)
    queue = torch_both.SimpleQueue()
    queue.put(sent)
    del sent
    got = queue.get()
    queue.close()
    # A parameter is made of a tensor's data, which takes the count along or not, by the version of torch.
    control = torch.empty(0).set_(torch.UntypedStorage(40))
    if kind in ("parameter", "frozen"):
        control = torch.nn.Parameter(control)
    assert got._version == control._version


SUB_BYTE = [f"{sign}int{bits}" for sign in ("", "u") for bits in range(1, 8)]


@pytest.mark.parametrize("name", [name for name in SUB_BYTE if hasattr(torch, name)])
def test_types_of_less_than_a_byte(torch_both: Any, name: str) -> None:
    dtype = getattr(torch, name)
    sent = torch.empty(6, dtype=dtype)
    sent.untyped_storage().copy_(torch.arange(6, dtype=torch.uint8).untyped_storage())
    queue = torch_both.SimpleQueue()
    queue.put([sent, {"view": sent[2:]}])
    whole, rest = queue.get()
    queue.close()
    assert whole.dtype == rest["view"].dtype == dtype
    assert whole.untyped_storage().tolist() == list(range(6))
    assert address(whole) == address(rest["view"]) == address(sent)

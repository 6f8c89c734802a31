"""The first contact with torch, under whatever device, mode or transform the program is in at that moment."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

pytest.importorskip("torch")

PROGRAM = """
    import warnings
    warnings.simplefilter("error", RuntimeWarning)
    import torch
    import forklift.multiprocessing as fmp
    from forklift import _core

    queue = fmp.SimpleQueue()
    sent = torch.arange(6.0)
    {body}
    assert _core._torch.known()
    queue.put(sent)
    again = queue.get()
    assert again.untyped_storage()._cdata == sent.untyped_storage()._cdata
    assert sent.is_shared() and again.tolist() == [0, 1, 2, 3, 4, 5]
    print("fine")
"""

BODIES = {
    "no mode": "queue.put(sent); got = queue.get()",
    "meta device": """
    with torch.device("meta"):
        queue.put(sent)
        got = queue.get()
        assert got.device.type == "cpu" and got.untyped_storage()._cdata == sent.untyped_storage()._cdata
        queue.put(sent[2:])
        assert queue.get().device.type == "cpu"
        queue.put([torch.nn.Parameter(sent.detach()), sent[3:3]])
        parameter, empty = queue.get()
        assert parameter.device.type == empty.device.type == "cpu" and empty.storage_offset() == 3
    """,
    "default device": """
    torch.set_default_device("meta")
    queue.put(sent)
    assert queue.get().device.type == "cpu"
    queue.put(sent[2:])
    assert queue.get().tolist() == [2, 3, 4, 5]
    assert torch.zeros(2).device.type == "meta"
    torch.set_default_device("cpu")
    """,
    "default dtype": """
    torch.set_default_dtype(torch.float64)
    queue.put(sent)
    assert queue.get().dtype == torch.float32
    """,
    "inference mode": """
    with torch.inference_mode():
        queue.put(sent)
        got = queue.get()
        queue.put(sent[1:])
        assert queue.get().tolist() == [1, 2, 3, 4, 5]
    """,
    "fake tensor mode": """
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
    part = sent[1:]
    with FakeTensorMode(allow_non_fake_inputs=True):
        queue.put(sent)
        got = queue.get()
        queue.put(part)
        rest = queue.get()
        assert not isinstance(got, FakeTensor) and not isinstance(rest, FakeTensor)
    assert rest.tolist() == [1, 2, 3, 4, 5]
    """,
    "dispatch mode": """
    from torch.utils._python_dispatch import TorchDispatchMode
    class Refuses(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            raise AssertionError(f"{function} reached the program's mode")
    with Refuses():
        queue.put(sent)
        got = queue.get()
        queue.put(sent.untyped_storage())
        storage = queue.get()
    assert storage._cdata == sent.untyped_storage()._cdata
    """,
    "function mode": """
    from torch.overrides import TorchFunctionMode
    class Refuses(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            raise AssertionError(f"{function} reached the program's mode")
    with Refuses():
        queue.put(sent)
        got = queue.get()
    """,
    "inside of grad": """
    def square(x):
        queue.put(sent)
        got = queue.get()
        assert got.tolist() == [0, 1, 2, 3, 4, 5]
        return (x * x).sum()
    assert torch.func.grad(square)(torch.ones(2)).tolist() == [2, 2]
    """,
    "inside of vmap": """
    def add(x):
        queue.put(sent)
        return x + queue.get()[0]
    assert torch.func.vmap(add)(torch.ones(2)).tolist() == [1, 1]
    """,
}


@pytest.mark.parametrize(
    "name",
    [
        name
        if name in ("no mode", "fake tensor mode", "inside of grad")
        else pytest.param(name, marks=pytest.mark.weekly)
        for name in BODIES
    ],
)
def test_first_contact(name: str) -> None:
    # Indented as the program is, whatever the body's own indentation.
    body = textwrap.indent(textwrap.dedent(BODIES[name]).strip(), "    ").lstrip()
    program = textwrap.dedent(PROGRAM.replace("{body}", body))
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "fine\n"

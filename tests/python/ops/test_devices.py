"""Tensors on a simulated accelerator, which belongs to one process at a time."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from typing import Any

import forklift
import forklift.multiprocessing as mp
import numpy as np
import ops_targets
import pytest
import support
from forklift import context


def run(code: str, **environment: str) -> str:
    """Run a program with a simulated accelerator, and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
            "FORKLIFT_SIMULATE_DEVICE": f"Ascend{os.getpid()}",
            **environment,
        },
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


HEAD = """
import os
import forklift
import numpy as np
from forklift import Tensor, context, ops
import forklift.multiprocessing as mp
DEVICE = os.environ["FORKLIFT_SIMULATE_DEVICE"]
context.set_context(device_target=DEVICE)

def raised(call):
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"
"""


def program(code: str, **environment: str) -> list[str]:
    return run(HEAD + textwrap.dedent(code), **environment).splitlines()


def test_computing_there() -> None:
    assert program(
        """
        x = Tensor([[1.0, 2.0], [3.0, 4.0]])
        y = ops.sum(ops.exp(x + 1) @ x, axis=0)
        print(x.device == y.device == DEVICE, x.is_shared)
        expected = (np.exp(np.array([[2.0, 3], [4, 5]], "f4")) @ np.array([[1.0, 2], [3, 4]], "f4")).sum(0)
        print(np.allclose(y.asnumpy(), expected), np.allclose(np.asarray(y), expected))
        print(y.tolist() == y.to("CPU").tolist(), x.to("CPU").device, x.to(DEVICE) is x)
        print(float(y[0] / y[0]), ops.argmax(x).item(), x[:, 1].tolist())
        big = forklift.zeros([1_000_000]) + 1
        print(float(ops.sum(big)), big.device == DEVICE, Tensor(2.0))
        """
    ) == ["True False", "True True", "True CPU True", "1.0 3 [2.0, 4.0]", "1000000.0 True 2.0"]


def test_what_is_refused() -> None:
    said = program(
        """
        x = Tensor([1.0])
        context.set_context(device_target="CPU")
        here = Tensor([1.0])
        print(raised(lambda: x + here))
        queue = mp.Queue(strict=True)
        print(raised(lambda: queue.put(x)))
        print(raised(lambda: x.__dlpack__()))
        print(raised(lambda: x.fill(2)))
        print(raised(lambda: context.set_context(device_target="Nowhere")))
        """
    )
    assert "a tensor on Ascend" in said[0]
    assert "and one on CPU" in said[0]
    for line in said[1:4]:
        assert "which the CPU cannot touch: copy it with to(" in line
    assert "ValueError: no device 'Nowhere' here; device_target may be one of: CPU, Ascend" in said[4]


def test_a_forked_child_computes_on_the_cpu() -> None:
    said = program(
        """
        x = Tensor([1.0, 2.0])

        def child(queue):
            queue.put((
                context.get_context("device_target"),
                Tensor(2.0).device,
                raised(lambda: x + 1),
                raised(lambda: x.numpy()),
                raised(lambda: x.to("CPU")),
                raised(lambda: (context.set_context(device_target=DEVICE), Tensor(1.0))),
            ))

        queue = mp.get_context("fork").Queue()
        process = mp.get_context("fork").Process(target=child, args=(queue,))
        process.start()
        for line in queue.get(timeout=20):
            print(line)
        process.join()
        print(process.exitcode, x.tolist(), context.get_context("device_target") == DEVICE)
        """
    )
    assert said[:2] == ["CPU", "CPU"]
    for line in said[2:5]:
        assert line.startswith("BrokenByForkError: ")
        assert "from which this one was forked" in line
    assert said[5].startswith("RefusedError: ")
    assert "is held by process" in said[5]
    assert said[6] == "0 [1.0, 2.0] True"


def test_one_process_at_a_time() -> None:
    said = program(
        """
        import subprocess, sys
        other = (
            "import os, forklift; from forklift import context;"
            "context.set_context(device_target=os.environ['FORKLIFT_SIMULATE_DEVICE']);"
            "forklift.Tensor(1.0); print('had it')"
        )
        def ask():
            done = subprocess.run([sys.executable, "-c", other], capture_output=True, text=True)
            return done.stdout.strip() or done.stderr.strip().splitlines()[-1]
        print(ask())  # nobody has opened it yet
        x = Tensor(1.0)
        print(ask())
        """
    )
    assert said[0] == "had it"
    assert "RefusedError" in said[1]
    assert "is held by process" in said[1]


def test_spawn_with_the_context_changed_in_the_child(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORKLIFT_SIMULATE_DEVICE", f"Other{os.getpid()}")
    ctx: Any = mp.get_context("spawn")
    queue = ctx.Queue()
    process = ctx.Process(target=ops_targets.compute_there_then_here, args=(queue,))
    process.start()
    assert queue.get(timeout=support.DEADLINE) == (f"Other{os.getpid()}", "CPU", 3.0)
    process.join()
    assert context.get_context("device_target") == "CPU"
    assert np.asarray(forklift.Tensor(1.0)) == 1.0

"""Helpers of the torch tests; their fixtures are in conftest.py. Without torch its importers are skipped."""

from __future__ import annotations

from typing import Any

import pytest
import support
import torch_targets
from forklift import _core

torch = pytest.importorskip("torch")
import torch.multiprocessing as tmp  # noqa: E402

__all__ = ["DEADLINE", "finish", "is_held", "run", "tmp", "torch"]

_core._torch.meet()
DEADLINE = support.DEADLINE


def run(context: Any, target: Any) -> tuple[Any, Any, Any]:
    there, back = context.Queue(), context.Queue()
    process = context.Process(target=target, args=(there, back))
    process.start()
    return there, back, process


def finish(there: Any, back: Any, process: Any) -> None:
    there.put(torch_targets.STOP)
    process.join(DEADLINE)
    assert process.exitcode == 0
    for queue in (there, back):
        queue.close()
        queue.join_thread()
        if not isinstance(queue, _core.QueueBase):
            queue._reader.close()


def is_held(tensor: Any) -> bool:
    storage = tensor.untyped_storage()
    return bool(_core._torch.held(storage._cdata, storage.data_ptr()))

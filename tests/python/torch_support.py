"""Helpers of the torch tests; their fixtures are in conftest.py. Without torch its importers are skipped."""

from __future__ import annotations

import ctypes
import os
from typing import Any

import pytest
import support
import torch_targets
from forklift import _core

torch = pytest.importorskip("torch")
import torch.multiprocessing as tmp  # noqa: E402

__all__ = ["DEADLINE", "MIB", "finish", "is_held", "proportional_memory", "run", "through", "tmp", "torch"]

_core._torch.meet()
# The same tests under the other strategy: FORKLIFT_TEST_STRATEGY=file_system pytest tests/python/adapters
if os.environ.get("FORKLIFT_TEST_STRATEGY") == "file_system":
    tmp.set_sharing_strategy("file_system")
    # What stays until the end, before anything is counted: the manager, and torch's connection to it.
    _named = torch.ones(1).share_memory_().untyped_storage()
    _opened = torch.UntypedStorage._new_shared_filename_cpu(*_named._share_filename_cpu_())
    support.until(lambda: os.path.exists(_core._segments.socket()), "the manager's socket")
DEADLINE = support.DEADLINE
MIB = 1 << 20


C = ctypes.CDLL(None)


def proportional_memory() -> int:
    """Bytes of this process, shared pages divided by those who map them (Pss), without what is free.

    Without pages of files: this process's share of a library grows when another process ends.
    """
    _core._torch.finish_giving_back()
    C.malloc_trim(0)
    with open("/proc/self/smaps_rollup") as lines:
        return sum(
            int(line.split()[1]) * 1024 for line in lines if line.startswith(("Pss_Anon:", "Pss_Shmem:"))
        )


def through(context: Any, values: list[Any]) -> None:
    """Put each value, and throw away what arrives."""
    queue = context.SimpleQueue()
    for value in values:
        queue.put(value)
        queue.get()
    queue.close()


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

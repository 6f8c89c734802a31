"""Which tests of torch run weekly.

A fresh interpreter that imports torch takes seconds, and dozens of tests try each start method. Those by
spawn run weekly, but for some; forkserver's children come from a fresh interpreter, too, and run each time.
"""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent
ABOUT_TORCH = ("test_torch_", "test_data_loader")  # not test_torch.py
EACH_TIME = ("test_pools", "test_a_killed_worker_is_an_error_at_once")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent != HERE or not item.path.name.startswith(ABOUT_TORCH):
            continue
        case = getattr(item, "callspec", None)
        spawned = case is not None and "spawn" in case.params.values()
        if spawned and not item.name.startswith(EACH_TIME):
            item.add_marker(pytest.mark.weekly)

"""tests/python/pool/test_pool_progress.py on the context "ray"."""

from __future__ import annotations

from typing import Any

import local_pool_tests
import pytest

globals().update(local_pool_tests.tests_of("test_pool_progress"))


@pytest.fixture
def fork(ray_context: Any) -> Any:
    return ray_context


@pytest.fixture
def ctx(ray_context: Any) -> Any:
    return ray_context


@pytest.fixture
def either(ray_context: Any) -> Any:
    return ray_context

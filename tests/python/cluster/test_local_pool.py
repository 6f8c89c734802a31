"""tests/python/pool/test_pool.py on the context of a cluster (see conftest.py)."""

from __future__ import annotations

from typing import Any

import local_pool_tests
import pytest

globals().update(local_pool_tests.tests_of("test_pool"))


@pytest.fixture
def fork(cluster_context: Any) -> Any:
    return cluster_context


@pytest.fixture
def ctx(cluster_context: Any) -> Any:
    return cluster_context


@pytest.fixture
def either(cluster_context: Any) -> Any:
    return cluster_context

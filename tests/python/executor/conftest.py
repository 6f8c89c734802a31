"""Executors of both libraries: the standard library's as the control."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from executor_targets import Kind


@pytest.fixture(params=["standard-fork", "forklift-fork", "forklift-spawn", "forklift-forkserver"])
def make(request: pytest.FixtureRequest) -> Kind:
    """A function that makes an executor."""
    library, _, method = request.param.partition("-")
    return Kind(library == "forklift", method)


@pytest.fixture
def executor(make: Kind) -> Iterator[Any]:
    with make() as made:
        yield made

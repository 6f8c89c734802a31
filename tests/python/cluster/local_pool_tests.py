"""The local pool's own tests, run on a cluster's context: the same functions, with other fixtures.

Tests that take no context are not about one, and are left out; so is test_pool_given_arrays.py, which is
about blocks of this process's domain. `EXCEPTIONS` names the tests that cannot hold between nodes.
"""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import pytest

CONTEXTS = ("ctx", "fork", "either")

# By the test's name, or its name with parameters: why it is not run.
EXCEPTIONS: dict[str, str] = {
    "test_callbacks_come_as_the_results_did": "makes 200 pools: 0.5 s each",
    "test_errors_bring_both_tracebacks": "a lambda is a result like others (test_ray_pool.py has the rest)",
    "test_functions_with_a_state_arrive_anew": "function and arguments are packed apart, so an array in both"
    " arrives twice (test_ray_pool.py has the rest)",
    "test_a_childs_copy_of_a_pool_is_none": "this context's processes are on other nodes, and no copies",
    "test_a_subclass_with_hooks_gets_the_standard_engine": "that engine needs processes of this machine",
    "test_which_methods_call_which": "makes subclasses of the local pool's class",
    "test_all_are_killed_again_and_again": "workers are no process objects here (test_ray_faults.py)",
    "test_a_stopped_worker_does_not_hold_terminate": "process ids of workers come with the first results",
    "test_a_function_that_came_after_the_workers": "the error names the node that lacks the function",
    "test_a_pool_at_rest_uses_no_processor": "needs the ids of all workers at once (test_ray_pool.py)",
    "test_worker_ids": "a node may be ready when others have done all (test_ray_pool.py has the rest)",
    "test_pinning": "processors of other nodes are others: cpus= raises NotAcrossNodesError",
    "test_options_without_an_end": "cpus= raises NotAcrossNodesError (test_ray_pool.py has the rest)",
    "test_queues_and_broadcasts_reach_workers_by_the_initializer": "Broadcast and Latest are shared memory",
    "test_a_barrier_that_nobody_would_pass": "is not about pools",
    "test_a_barrier_of_a_quotient": "is not about pools",
}


def tests_of(module: str) -> dict[str, Any]:
    """The tests of a module of tests/python/pool and their fixtures, for the globals of another module."""
    found: dict[str, Any] = {}
    for name, value in vars(importlib.import_module(module)).items():
        is_test = name.startswith("test_") and not set(CONTEXTS).isdisjoint(
            inspect.signature(value).parameters
        )
        if is_test or (type(value).__name__ == "FixtureFunctionDefinition" and name not in CONTEXTS):
            found[name] = value
    return found


def mark_exception(item: pytest.Item) -> None:
    """Skip a test that is an exception, with its reason."""
    name = getattr(item, "originalname", item.name)
    if name in EXCEPTIONS:
        item.add_marker(pytest.mark.skip(reason=EXCEPTIONS[name]))

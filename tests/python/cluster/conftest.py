"""A Ray cluster of three nodes on this machine for the tests of the folder; what is checked after each."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import support

POOL_TESTS = Path(__file__).parents[1] / "pool"
# The local pool's tests are imported by name, here and by the workers (see local_pool_tests.py).
sys.path += [str(POOL_TESTS), str(Path(__file__).parent)]
for _each in POOL_TESTS.glob("test_*.py"):
    pytest.register_assert_rewrite(_each.stem)

os.environ.setdefault("RAY_DEDUP_LOGS", "0")
# Ray gives its workers a niceness of 15: beside other tests they would starve.
os.environ.setdefault("RAY_worker_niceness", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")


STORE = 200 << 20  # bytes of a node's object store
# A killed node's connections are refused, which is noticed at once; a machine under load is slow to answer.
SYSTEM = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 1000,
    "health_check_timeout_ms": 10_000,
}


def _started() -> Any:
    """The head node. Ray gives its processes 30 s to start; on a busy machine they may need a second try."""
    from ray.cluster_utils import Cluster

    head = {
        "num_cpus": 1,
        "include_dashboard": False,
        "object_store_memory": STORE,
        "_system_config": SYSTEM,
    }
    try:
        return Cluster(initialize_head=True, head_node_args=head)
    except Exception:
        return Cluster(initialize_head=True, head_node_args=head)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """Three nodes with a CPU each. A node's death is noticed within some five seconds."""
    pytest.importorskip("ray", reason="Ray is not installed: python -m pip install ray cloudpickle")
    import ray

    made = _started()
    for _ in range(2):
        made.add_node(num_cpus=1, object_store_memory=STORE)
    ray.init(address=made.address, log_to_driver=False, logging_level="ERROR")
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.fixture
def ray_context(cluster: Any) -> Any:
    import forklift.multiprocessing as mp

    return mp.get_context("ray")


@pytest.fixture
def cluster_context(request: pytest.FixtureRequest) -> Any:
    """Ray's context; that of MPI in the job in which mpi/test_mpi_local_pool.py runs pytest."""
    import forklift.multiprocessing as mp

    if os.environ.get("FORKLIFT_TESTED_CLUSTER") == "mpi":
        return mp.get_context("mpi")
    return request.getfixturevalue("ray_context")


@pytest.fixture(autouse=True)
def _leak_check(_lasting_parts: None, request: pytest.FixtureRequest) -> Iterator[None]:
    """As for the other folders, but for descriptors: Ray opens and closes sockets as it pleases."""
    before = _holdings()
    yield
    if getattr(request.node, "failed", False):
        return
    left: list[str] = []

    def settled() -> bool:
        nonlocal left
        left = support.difference(before, _holdings())
        return not left

    try:
        support.until(settled, "everything given back", 10.0)
    except AssertionError:
        raise AssertionError("left behind: " + "; ".join(left)) from None


def _holdings() -> dict[str, Any]:
    import gc

    gc.collect()
    found = support.holdings()
    del found["descriptors"], found["shm"]
    found["children"] -= _rays_own()
    rays = ("ray", "thread-", "pythongcthread")
    found["threads"] = {name for name in found["threads"] if not name.lower().startswith(rays)}
    return found


def _rays_own() -> set[int]:
    """The processes of the cluster, which are children of this one."""
    own = set()
    for pid in support.children():
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        # Not just b"ray": a forked child has the command of pytest, with names of tests such as test_arrays.
        if b"/ray/" in command:
            own.add(pid)
    return own


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    import local_pool_tests

    for item in items:
        if item.path.parent == Path(__file__).parent:
            local_pool_tests.mark_exception(item)
            item.add_marker(pytest.mark.timeout(300))  # the first one starts the cluster
            # Each makes pools of its own, which take Ray half a second and more.
            name = item.path.name
            if name.startswith("test_local_pool_") and name != "test_local_pool_deaths.py":
                item.add_marker(pytest.mark.weekly)

"""Fixtures, and a check after every test: no child, descriptor, mapping, block, queue or name may be left."""

from __future__ import annotations

import faulthandler
import gc
import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator
from multiprocessing import resource_sharer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

# Children that are fresh interpreters import the functions that they run from this folder, by name.
sys.path.insert(0, str(Path(__file__).parent))

import fork_server_programs
import forklift
import forklift.multiprocessing
import support
import targets
from forklift import _core

support.own_dev_shm()

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Shells set this for programs that they run in the background, and children would inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)

METHODS = ("fork", "spawn", "forkserver")
WATCHDOG_S = 100


@pytest.fixture(scope="session", autouse=True)
def _lasting_parts() -> None:
    """Before anything is counted, make what stays: the domain, the standard library's helpers."""
    _core.ensure_domain()
    for method in METHODS:
        context = forklift.multiprocessing.get_context(method)
        queue = context.Queue()
        # A daemon, since the first one makes the pipe of the lifelines.
        process = context.Process(target=targets.put_one, args=(queue, np.zeros(10_000)), daemon=True)
        process.start()
        queue.get(timeout=support.DEADLINE)
        process.join()
    # The leak check collects garbage after each test. Without this it would traverse the objects of torch and
    # jax each time, which takes longer than most tests.
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _watchdog() -> Iterator[None]:
    """Print all stacks on stderr before the time-out kills the run."""
    faulthandler.dump_traceback_later(WATCHDOG_S, exit=False)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture(autouse=True)
def _leak_check(_lasting_parts: None, request: pytest.FixtureRequest) -> Iterator[None]:
    before = support.holdings()
    yield
    # The standard library's thread that hands descriptors on, if the test has used it.
    resource_sharer.stop(support.DEADLINE)  # type: ignore[attr-defined]
    if not getattr(request.node, "failed", False):
        support.assert_nothing_left(before)
        return
    # A failed test's traceback keeps its queues; the failure is report enough. But its children would be
    # waited for at the end of the run.
    for child in multiprocessing.active_children():
        child.kill()
        child.join()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    report = yield
    if report.failed:
        item.failed = True  # type: ignore[attr-defined]
    return report


@pytest.fixture(params=METHODS)
def ctx(request: pytest.FixtureRequest) -> Any:
    """Forklift's context for each start method."""
    return forklift.multiprocessing.get_context(request.param)


@pytest.fixture(params=["multiprocessing", "forklift"])
def either(request: pytest.FixtureRequest) -> Any:
    """The fork contexts of the standard library, as the control, and of Forklift."""
    module = multiprocessing if request.param == "multiprocessing" else forklift.multiprocessing
    return module.get_context("fork")


@pytest.fixture
def echo(ctx: Any) -> Iterator[Any]:
    """A function that sends an object through a child and returns what comes back."""
    # pytest keeps the function beyond the leak check, so the function must not keep the queues.
    queues = [ctx.Queue(), ctx.Queue()]
    process = ctx.Process(target=targets.echo, args=tuple(queues))
    process.start()

    def through(value: Any) -> Any:
        queues[0].put(value)
        return queues[1].get(timeout=60)

    yield through
    queues[0].put(targets.STOP)
    process.join(support.DEADLINE)
    queues.clear()
    assert process.exitcode == 0


@pytest.fixture
def root_only() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root")


@pytest.fixture
def small_budget() -> Iterator[int]:
    budget = 64 << 20
    forklift.trim()
    forklift.set_budget(budget)
    yield budget
    forklift.set_budget(0)


# Under file_system torch's own queues hand names over, and each of these lives for another second.
@pytest.fixture(params=["forklift"] if "FORKLIFT_TEST_STRATEGY" in os.environ else ["torch", "forklift"])
def torch_both(request: pytest.FixtureRequest) -> Any:
    """The fork contexts of torch.multiprocessing, as the control, and of Forklift."""
    import torch_support

    return (torch_support.tmp if request.param == "torch" else forklift.multiprocessing).get_context("fork")


@pytest.fixture(scope="module")
def shm_manager() -> None:
    """The manager of named segments and its files stay until the end; before anything is counted."""
    _core._segments.create(1)
    support.until(lambda: os.path.exists(_core._segments.socket()), "the manager's socket")


@pytest.fixture(params=["file_descriptor", "file_system"])
def strategy(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each sharing strategy, set for the test."""
    mp = forklift.multiprocessing
    before = mp.get_sharing_strategy()
    mp.set_sharing_strategy(request.param)
    yield request.param
    mp.set_sharing_strategy(before)


@pytest.fixture
def torch_echo() -> Iterator[Any]:
    """As echo, but by fork only, with a child that has imported torch."""
    import torch_support
    import torch_targets

    parts = list(torch_support.run(forklift.multiprocessing.get_context("fork"), torch_targets.echo))

    def through(value: Any) -> Any:
        parts[0].put(value)
        return parts[1].get(timeout=60)

    yield through
    torch_support.finish(*parts)
    parts.clear()


@pytest.fixture(params=METHODS)
def method(request: pytest.FixtureRequest) -> str:
    """The name of each start method."""
    return str(request.param)


@pytest.fixture(params=["forklift", "torch"])
def mp(request: pytest.FixtureRequest) -> Any:
    """Forklift's module, and torch.multiprocessing as the control."""
    if request.param == "forklift":
        return forklift.multiprocessing
    pytest.importorskip("torch")
    import torch.multiprocessing as theirs

    return theirs


@pytest.fixture
def program(tmp_path: Path) -> fork_server_programs.Program:
    """Files in a folder, which are run as a program."""
    return fork_server_programs.Program(tmp_path)

"""Operations in processes that fork: the cases of a framework with threads."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import forklift
import forklift.multiprocessing as mp
import numpy as np
import ops_targets
import pytest
import support
from forklift import Tensor, _core, context, ops

N = 300_000  # above the size from which operations are queued


@pytest.fixture(autouse=True)
def _three_threads() -> Iterator[None]:
    context.set_context(num_threads=3)
    yield
    context.set_context(num_threads=1, fork_timeout=60)


def busy(count: int = 200) -> Tensor:
    """A value that is on its way: `count` operations are queued."""
    x = forklift.zeros([N])
    for _ in range(count):
        x = x + 1
    return x


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_parent_computes_then_four_children(method: str) -> None:
    x = busy()
    ctx = mp.get_context(method)
    queue = ctx.Queue()
    children = [ctx.Process(target=ops_targets.compute_and_send, args=(queue, i)) for i in range(4)]
    for child in children:
        child.start()
    results = sorted((queue.get(timeout=support.DEADLINE) for _ in children), key=lambda pair: pair[0])
    for child in children:
        child.join()
        assert child.exitcode == 0
    for i, result in results:
        np.testing.assert_allclose(
            result.numpy(), np.log(np.full(ops_targets.N, i + 2.0, "float32")), rtol=1e-6
        )
    assert float(x[-1]) == 200.0


def test_pool_after_computing() -> None:
    x = busy()
    with mp.get_context("fork").Pool(2) as pool:
        results = pool.map(ops_targets.total, [x, Tensor(2.0), busy(3)])
    assert results == [200.0 * N, 2.0, 3.0 * N]


def test_a_worker_that_the_pool_replaces() -> None:
    with mp.get_context("fork").Pool(1, maxtasksperchild=1) as pool:
        totals = []
        for i in range(1, 4):
            totals.append(pool.apply(ops_targets.total, (busy(i),)))
            assert float(ops.sum(busy(2))) == 2.0 * N  # the parent computes between the forks
    assert totals == [1.0 * N, 2.0 * N, 3.0 * N]


def test_a_thousand_operations_in_flight() -> None:
    x = busy(1000)
    pid = os.fork()
    if pid == 0:
        os._exit(0 if x.numpy().min() == x.numpy().max() == 1000 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    np.testing.assert_array_equal(x.numpy(), np.full(N, 1000, "float32"))


def test_fork_while_another_thread_submits() -> None:
    stop = threading.Event()
    seen: list[float] = []

    def submit() -> None:
        while not stop.is_set():
            seen.append(float(ops.sum(busy(5))))

    thread = threading.Thread(target=submit)
    thread.start()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", DeprecationWarning
            )  # Python 3.12 and newer: the test's own thread
            for _ in range(10):
                pid = os.fork()
                if pid == 0:
                    os._exit(0 if float(ops.sum(busy(3))) == 3.0 * N else 1)
                assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    finally:
        stop.set()
        thread.join()
    assert set(seen) == {5.0 * N}


def test_child_of_a_child() -> None:
    queue = mp.get_context("fork").Queue()
    process = mp.get_context("fork").Process(target=ops_targets.nested, args=(queue, busy(4), 2))
    process.start()
    assert queue.get(timeout=support.DEADLINE) == 4.0 * N
    process.join()
    assert process.exitcode == 0


def test_no_warning_about_threads() -> None:
    x = busy(3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # Python 3.12 and newer warn where a process with threads forks
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
    assert float(x[0]) == 3.0


def test_a_deadline_refuses_the_fork() -> None:
    busy(1)  # there are threads, and the audit hook
    context.set_context(fork_timeout=0)
    x = busy(1500)
    with pytest.raises(
        TimeoutError, match=r"no fork after waiting .* the first of them add\(float32\(300000,\)"
    ):
        os.fork()
    process = mp.get_context("fork").Process(target=ops_targets.nothing)
    with pytest.raises(TimeoutError, match="operations are still being computed"):
        process.start()
    context.set_context(fork_timeout=60)
    process = mp.get_context("fork").Process(target=ops_targets.nothing)
    process.start()
    process.join()
    assert process.exitcode == 0
    assert float(x[0]) == 1500.0


def test_a_fork_that_fails() -> None:
    # The limit is for the user, whose other processes count: only a child that has it may try.
    code = """
        import os
        import resource
        import forklift
        from forklift import context, ops
        context.set_context(num_threads=3)
        x = forklift.zeros([300_000])
        for _ in range(50):
            x = x + 1
        if os.getuid() == 0:
            os.setuid(65534)
        resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
        try:
            os.fork()
        except BlockingIOError:
            pass
        else:
            raise SystemExit("the fork did not fail")
        # No thread can be had now: the caller computes.
        print(float(ops.sum(x + 1)) == 51.0 * 300_000)
        """
    assert support.run_python(code).split() == ["True"]


def test_spawn_and_forkserver_do_nothing_of_it() -> None:
    x = busy(5)
    before = _core._runtime.fork_counts()
    for method in ("spawn", "forkserver"):
        ctx = mp.get_context(method)
        queue = ctx.Queue()
        process = ctx.Process(target=ops_targets.put_fork_counts, args=(queue,))
        process.start()
        counts = queue.get(timeout=support.DEADLINE)
        process.join()
        if method == "spawn":
            assert counts == (0, 0, 0)
    assert _core._runtime.fork_counts() == before
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    prepared, parents, children = _core._runtime.fork_counts()
    assert (prepared, parents, children) == (before[0] + 1, before[1] + 1, before[2])
    assert float(x[0]) == 5.0


def test_idle_then_compute_in_both() -> None:
    busy(3)
    assert support.until(lambda: _core._runtime.in_flight() == 0, "the queue to be empty")
    pid = os.fork()
    if pid == 0:
        os._exit(0 if float(ops.sum(busy(2))) == 2.0 * N else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert float(ops.sum(busy(2))) == 2.0 * N


def test_the_thread_that_made_a_child_ends() -> None:
    queue = mp.get_context("fork").Queue()
    go = mp.get_context("fork").Event()
    made: list[Any] = []

    def make() -> None:
        process = mp.get_context("fork").Process(target=ops_targets.after, args=(go, queue, busy(2)))
        process.start()
        made.append(process)

    thread = threading.Thread(target=make)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        thread.start()
        thread.join()
    go.set()
    assert queue.get(timeout=support.DEADLINE) == 2.0 * N
    made[0].join()
    assert made[0].exitcode == 0
    assert not multiprocessing.active_children()


def test_the_parent_is_killed_with_operations_in_flight() -> None:
    reads, writes = os.pipe()
    parent = subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"import ops_targets; ops_targets.be_killed_with_operations_in_flight({writes})",
        ],
        pass_fds=[writes],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    os.close(writes)
    with os.fdopen(reads) as reports:
        assert sorted(reports.readline() for _ in range(3)) == ["computing\n"] * 2 + ["started\n"]
        parent.kill()
        assert parent.wait(support.DEADLINE) == -signal.SIGKILL
        total = 3.0 * ops_targets.N
        assert reports.readline() == reports.readline() == f"{total} {total} {total}\n"
        assert reports.read() == ""  # the children have ended


def test_shared_results_are_complete_when_sent() -> None:
    queue = mp.get_context("fork").Queue()
    for i in range(1, 30):
        queue.put(busy(i))
        received = queue.get(timeout=support.DEADLINE)
        assert received.numpy().min() == i


def test_what_both_sides_see_is_complete_when_an_operation_returns() -> None:
    x, before = forklift.zeros([N]), forklift.zeros([N])
    before += 1  # on its way, at the latest until the fork
    reads, writes = os.pipe()
    pid = os.fork()
    if pid == 0:
        x += 1
        complete = _core._runtime.in_flight() == 0
        os.write(writes, b"1" if complete else b"0")
        os.kill(os.getpid(), signal.SIGKILL)  # nothing that comes later can complete it
    assert os.read(reads, 1) == b"1"
    assert x.numpy().min() == 1.0
    os.waitpid(pid, 0)
    os.close(reads)
    os.close(writes)
    before += 1
    assert _core._runtime.in_flight() == 0
    assert before.numpy().min() == 2.0
    after = forklift.zeros([N])
    assert float((after + 1)[0]) == 1.0


def test_context() -> None:
    assert set(context.get_context()) == {"device_handover", "device_target", "fork_timeout", "num_threads"}
    assert context.get_context("num_threads") == 3
    with pytest.raises(ValueError, match=r"no device 'Nowhere' here; device_target may be one of: CPU"):
        context.set_context(device_target="Nowhere")
    with pytest.raises(ValueError, match="at least 0"):
        context.set_context(num_threads=-1)
    with pytest.raises(ValueError, match="at least 0"):
        context.set_context(fork_timeout=-1)
    with pytest.raises(KeyError, match="no setting 'colour'"):
        context.get_context("colour")
    busy(300)
    context.set_context(num_threads=2)  # with work in flight: waits for the threads
    assert context.get_context("num_threads") == 2

"""joblib's backend "forklift"."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import forklift
import forklift.multiprocessing
import numpy as np
import pytest
import support
from executor_targets import add_in_place, die, fail, pid_after_a_while, square

joblib = pytest.importorskip("joblib", reason="joblib is not installed")


@pytest.fixture(autouse=True)
def _backend() -> Iterator[None]:
    import forklift.adapters.joblib

    yield
    forklift.adapters.joblib.shutdown()


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_equal_results(method: str) -> None:
    context = forklift.multiprocessing.get_context(method)
    with joblib.parallel_config(backend="forklift", n_jobs=2, mp_context=context):
        assert joblib.Parallel()(joblib.delayed(square)(i) for i in range(500)) == [i * i for i in range(500)]
        arrays = [np.full(300_000, i, np.float64) for i in range(4)]
        got = joblib.Parallel()(joblib.delayed(add_in_place)(each) for each in arrays)
        assert [each[-1] for each in got] == [1, 2, 3, 4]
        assert [each[-1] for each in arrays] == [0, 1, 2, 3]


def test_options_of_parallel() -> None:
    parallel = joblib.Parallel(n_jobs=2, backend="forklift", max_nbytes="1K", return_as="generator")
    assert list(parallel(joblib.delayed(square)(i) for i in range(20))) == [i * i for i in range(20)]
    with joblib.Parallel(n_jobs=2, backend="forklift", batch_size=3) as parallel:
        pids = {pid for _ in range(3) for pid in parallel(joblib.delayed(os.getpid)() for _ in range(9))}
        assert len(pids) <= 2
        assert os.getpid() not in pids
    assert joblib.Parallel(n_jobs=1, backend="forklift")([joblib.delayed(os.getpid)()]) == [os.getpid()]


def pids(**options: Any) -> set[int]:
    found = joblib.Parallel(backend="forklift", batch_size=1, **{"n_jobs": 2, **options})(
        joblib.delayed(pid_after_a_while)() for _ in range(8)
    )
    return set(found)


def test_workers_are_kept() -> None:
    first = pids()
    assert len(first) == 2
    assert pids() == first, "the same options"
    assert not pids(n_jobs=3) & first, "others"
    assert not pids() & first, "those were replaced"
    last = pids(idle_worker_timeout=0)
    support.until(lambda: not support.children() & last, "the workers to end with their call")


def test_kept_workers_end_when_they_idle() -> None:
    kept = pids(idle_worker_timeout=0.2)
    support.until(lambda: not support.children() & kept, "the idle workers to end")
    assert not pids() & kept


def test_workers_that_died_are_replaced() -> None:
    first = pids()
    for pid in first:
        os.kill(pid, signal.SIGKILL)
    support.until(lambda: not support.children() & first, "the executor to notice")
    assert len(pids() - first) == 2


def test_each_of_several_threads_has_workers_of_its_own() -> None:
    both = threading.Barrier(2)
    found: list[set[int]] = []

    def work() -> None:
        with joblib.Parallel(n_jobs=2, backend="forklift", batch_size=1) as parallel:
            both.wait(support.DEADLINE)
            found.append(set(parallel(joblib.delayed(pid_after_a_while)() for _ in range(8))))
            both.wait(support.DEADLINE)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(support.DEADLINE)
    assert len(found) == 2
    assert not found[0] & found[1]


def test_a_forked_child_starts_its_own() -> None:
    first = pids()
    theirs = forklift.multiprocessing.get_context("fork").Queue()
    child = forklift.multiprocessing.get_context("fork").Process(target=lambda: theirs.put(pids()))
    child.start()
    assert not theirs.get(timeout=support.DEADLINE) & first
    child.join(support.DEADLINE)
    assert child.exitcode == 0
    assert pids() == first


def test_what_goes_beside_the_pickle() -> None:
    array, shared = np.arange(100_000.0), forklift.share(np.zeros(100_000))
    objects = np.array([{"a": 1}] * 4000, dtype=object)

    def work(given: list[Any], small: Any, at: int) -> Any:
        shared[at] = len(objects)
        given[0][0] = 7
        assert given[0] is given[1], "one object stays one"
        return given[0], small * 2, objects[3999]

    results = joblib.Parallel(n_jobs=2, backend="forklift")(
        joblib.delayed(work)([array, array], np.arange(3), at) for at in (3, 99_999)
    )
    for got, small, last in results:
        assert got[0] == 7
        assert got[-1] == 99_999
        assert small.tolist() == [0, 2, 4]
        assert last == {"a": 1}
    assert array[0] == 0, "an argument is private"
    assert shared[3] == shared[99_999] == 4000, "what is shared is not"


def test_torch_tensors_go_beside_the_pickle() -> None:
    torch = pytest.importorskip("torch")
    x = torch.ones(1000)
    (got,) = joblib.Parallel(n_jobs=2, backend="forklift")([joblib.delayed(lambda t: t.add_(1))(x)])
    assert torch.equal(got, torch.full((1000,), 2.0))
    assert torch.equal(x, got), "as in a queue, it is the sender's memory: a pickle would be a copy"


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_the_workers_share_the_processors(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    threadpoolctl = pytest.importorskip("threadpoolctl", reason="it comes with scikit-learn")
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)

    def used() -> tuple[set[int], str]:
        np.ones((2, 2)) @ np.ones((2, 2))
        found = threadpoolctl.threadpool_info()
        return {each["num_threads"] for each in found}, os.environ["OPENBLAS_NUM_THREADS"]

    context = forklift.multiprocessing.get_context(method)

    def found(**options: Any) -> Any:
        with joblib.parallel_config(backend="forklift", n_jobs=2, mp_context=context, **options):
            return joblib.Parallel()([joblib.delayed(used)()])[0]

    with threadpoolctl.threadpool_limits(2 * joblib.cpu_count()):  # more than a worker's share
        here = {each["num_threads"] for each in threadpoolctl.threadpool_info()}
        share = max(joblib.cpu_count() // 2, 1)
        assert found() == ({share}, str(share))
        assert found(inner_max_num_threads=3) == ({3}, "3")
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", "2")
        counts, variable = found()
        assert (2 in counts, variable) == (True, "2"), "what the user asked for"
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", "2,1")
        assert found()[1] == "2,1", "no number: left to the library"
        assert {each["num_threads"] for each in threadpoolctl.threadpool_info()} == here, "not the parent's"


def test_an_initializer_comes_after_ours() -> None:
    def start(name: str) -> None:
        os.environ["SEEN"] = os.environ[name]

    context = forklift.multiprocessing.get_context("fork")  # a nested function goes to a worker by no other
    options: dict[str, Any] = {"initializer": start, "initargs": ("OMP_NUM_THREADS",), "mp_context": context}
    with joblib.parallel_config(backend="forklift", n_jobs=2, inner_max_num_threads=5, **options):
        assert joblib.Parallel()([joblib.delayed(lambda: os.environ["SEEN"])()]) == ["5"]


def test_a_calls_time_out_stands_before_the_configurations() -> None:
    with joblib.parallel_config(backend="forklift", n_jobs=2, idle_worker_timeout=300):
        ended = set(
            joblib.Parallel(batch_size=1, idle_worker_timeout=0)(
                joblib.delayed(pid_after_a_while)() for _ in range(8)
            )
        )
    support.until(lambda: not support.children() & ended, "the workers to end with their call")


PROGRAM = """
import joblib, os
import forklift.adapters.joblib
factor = 1
def f(x):
    return x * factor
class C:
    def __init__(self, x):
        self.x = x
    def value(self):
        return self.x
def value(c):
    return c.value(), type(c) is C
parallel = joblib.Parallel(n_jobs=2, backend="forklift")
before = set()
while len(before) < 2:  # one worker may do the first calls while the other begins
    before |= set(parallel(joblib.delayed(os.getpid)() for _ in range(50)))
print(parallel(joblib.delayed(f)(i) for i in range(4)))
factor = 10
print(parallel(joblib.delayed(f)(i) for i in range(4)), "what the function refers to as it is now")
def f(x):
    return -x
print(parallel(joblib.delayed(f)(i) for i in range(4)), "defined after the workers began")
print(parallel(joblib.delayed(value)(C(i)) for i in range(3)))
class C(C):
    def value(self):
        return "new"
print(parallel(joblib.delayed(value)(C(i)) for i in range(1)))
print(set(parallel(joblib.delayed(os.getpid)() for _ in range(50))) <= before)
"""


def test_what_the_main_module_defines_goes_by_value() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "[0, 1, 2, 3]",
        "[0, 10, 20, 30] what the function refers to as it is now",
        "[0, -1, -2, -3] defined after the workers began",
        "[(0, True), (1, True), (2, True)]",
        "[('new', True)]",
        "True",
    ]


def test_what_a_call_raises() -> None:
    with pytest.raises(ValueError, match="no rest"):
        joblib.Parallel(n_jobs=2, backend="forklift")(joblib.delayed(fail)("rest") for _ in range(9))


def test_deaths() -> None:
    from concurrent.futures.process import BrokenProcessPool

    with pytest.raises(BrokenProcessPool):
        joblib.Parallel(n_jobs=2, backend="forklift")(joblib.delayed(die)() for _ in range(3))
    with joblib.parallel_config(backend="forklift", n_jobs=2, on_death="fail-task"):
        with pytest.raises(forklift.WorkerDiedError):
            joblib.Parallel()(joblib.delayed(die)() for _ in range(3))


def test_without_joblib() -> None:
    code = "import sys; sys.modules['joblib'] = None; import forklift.adapters.joblib"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "python -m pip install joblib" in done.stderr

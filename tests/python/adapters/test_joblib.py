"""joblib's backend "forklift"."""

from __future__ import annotations

import os
import subprocess
import sys

import forklift
import numpy as np
import pytest
from executor_targets import add_in_place, die, fail, square

joblib = pytest.importorskip("joblib", reason="joblib is not installed")


@pytest.fixture(autouse=True)
def _registered() -> None:
    import forklift.adapters.joblib  # noqa: F401


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

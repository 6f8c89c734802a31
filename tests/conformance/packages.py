"""Other packages' test suites: which of their tests concern processes, and where they come from.

A suite is run as pytest runs it, once plain and once under ``python -m forklift``; see suites.py. Nothing of
them lies here: they come with the installed package, or from a checkout of its sources.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
from pathlib import Path


@dataclasses.dataclass(frozen=True)
class Suite:
    """The tests of one package that have to do with processes."""

    package: str  # as it is imported
    project: str  # as it is installed by pip
    sources: str  # where a checkout comes from
    tests: tuple[str, ...]  # files or folders in a checkout
    installed: tuple[str, ...] = ()  # the same as modules, where the package brings them
    select: str = ""  # of these, as `pytest -k` takes it
    options: tuple[str, ...] = ()  # more for pytest
    needs: tuple[str, ...] = ()  # other projects without which they cannot run
    apart: bool = False  # each file in a process of its own
    # The tests are run in a copy of their files: the checkout's own package would hide the installed one.
    copied: bool = False
    # A line of the copied files, and by what it is replaced, for a third way of running them.
    swap: tuple[str, str] | None = None
    # Variables with which each way is run, one set after the other.
    settings: tuple[dict[str, str], ...] = ({},)
    checkout_hint: str = ""  # what else a checkout needs


_SKLEARN = (
    "calibration multioutput pipeline",
    "callback.callback_context callback.callback_support compose.column_transformer",
    "decomposition.dict_learning decomposition.online_lda decomposition.sparse_pca",
    "ensemble.bagging ensemble.forest ensemble.iforest ensemble.voting",
    "feature_selection.rfe inspection.permutation_importance",
    "linear_model.logistic linear_model.theil_sen metrics.pairwise",
    "model_selection.search model_selection.validation neighbors.neighbors utils.parallel",
)


def _sklearn_modules() -> tuple[str, ...]:
    found = []
    for name in " ".join(_SKLEARN).split():
        folder, _, stem = name.rpartition(".")
        found.append(".".join(part for part in ("sklearn", folder, "tests", f"test_{stem}") if part))
    return tuple(found)


SUITES: dict[str, Suite] = {
    "joblib": Suite(
        "joblib",
        "joblib",
        "https://github.com/joblib/joblib",
        ("joblib/test/test_parallel.py", "joblib/test/test_memmapping.py"),
        ("joblib.test.test_parallel", "joblib.test.test_memmapping"),
        select="multiprocessing or loky or memmap or pool",
    ),
    "loky": Suite(
        "loky",
        "loky",
        "https://github.com/joblib/loky",
        (
            "tests/test_loky_backend.py",
            "tests/test_loky_module.py",
            "tests/test_process_executor_loky.py",
            "tests/test_process_executor_spawn.py",
            "tests/test_reusable_executor.py",
            "tests/test_synchronize.py",
            "tests/test_worker_timeout.py",
        ),
        options=("--loky-verbosity=40", "--skip-high-memory"),
        needs=("psutil",),
    ),
    "scikit-learn": Suite(
        "sklearn",
        "scikit-learn",
        "https://github.com/scikit-learn/scikit-learn",
        tuple(name.replace(".", "/") + ".py" for name in _sklearn_modules()),
        _sklearn_modules(),
        select="parallel or n_jobs or multiprocess or loky",
    ),
    "pebble": Suite(
        "pebble",
        "pebble",
        "https://github.com/noxdafox/pebble",
        tuple(
            f"test/test_{what}_{method}.py"
            for what in ("process_pool", "concurrent_process", "asynchronous_process")
            for method in ("fork", "spawn", "forkserver")
        ),
        apart=True,  # each sets a start method, and is skipped where there is one already
    ),
    "gymnasium": Suite(
        "gymnasium",
        "gymnasium",
        "https://github.com/Farama-Foundation/Gymnasium",
        ("tests/vector",),
        select="async or Async or vector",
        needs=("numpy",),
    ),
    "stable-baselines3": Suite(
        "stable_baselines3",
        "stable-baselines3",
        "https://github.com/DLR-RM/stable-baselines3",
        ("tests/test_vec_envs.py", "tests/test_vec_monitor.py", "tests/test_vec_normalize.py"),
        needs=("torch", "pandas"),
    ),
    "pytorch": Suite(
        "torch",
        "torch",
        "https://github.com/pytorch/pytorch",
        ("test/test_multiprocessing.py", "test/test_multiprocessing_spawn.py"),
        needs=("numpy", "expecttest"),
        copied=True,
        swap=("import torch.multiprocessing as mp", "import forklift.multiprocessing as mp"),
        settings=tuple({"TORCH_SHARING_STRATEGY": each} for each in ("file_descriptor", "file_system")),
    ),
    "dask": Suite(
        "dask",
        "dask",
        "https://github.com/dask/dask",
        ("dask/tests/test_multiprocessing.py", "dask/bag/tests/test_bag.py"),
        ("dask.tests.test_multiprocessing", "dask.bag.tests.test_bag"),
    ),
    "mpire": Suite(
        "mpire",
        "mpire",
        "https://github.com/sybrenjansen/mpire",
        ("tests",),
    ),
    # Run by array_api.py, not plain and with Forklift.
    "array-api": Suite(
        "forklift",
        "forklift-mp",
        "https://github.com/data-apis/array-api-tests",
        ("array_api_tests", "array-api/spec"),
        needs=("hypothesis", "ndindex", "pytest_jsonreport"),
        checkout_hint="git submodule update --init",
    ),
}


class Missing(Exception):
    """A package, or its tests, cannot be found; says how to get it."""


@dataclasses.dataclass(frozen=True)
class Found:
    """A suite that can be run."""

    suite: Suite
    version: str
    root: Path  # to which the tests' names are relative: the checkout, or where the package is installed
    is_checkout: bool
    runs: tuple[tuple[str, ...], ...]  # what each pytest is told to run


def _ask(python: str, question: str, folder: Path | None) -> str:
    done = subprocess.run([python, "-c", question], stdout=subprocess.PIPE, text=True, cwd=folder)
    return done.stdout.strip()


def _lacking(python: str, modules: tuple[str, ...], folder: Path | None) -> list[str]:
    """Those of the modules that the interpreter, in that folder, does not find."""
    question = f"""
import importlib.util, json
def found(name):
    try: return importlib.util.find_spec(name) is not None
    except ImportError: return False
print(json.dumps([name for name in {modules!r} if not found(name)]))"""
    return list(json.loads(_ask(python, question, folder) or json.dumps(modules)))


def find(name: str, python: str, checkout: Path | None) -> Found:
    """Where a suite's tests are. Missing says in words what is not there.

    Without an argument the variable FORKLIFT_<NAME> (FORKLIFT_PYTORCH, say) is the path of a checkout.
    """
    suite = SUITES[name]
    variable = "FORKLIFT_" + name.upper().replace("-", "_")
    if checkout is None and variable in os.environ:
        checkout = Path(os.environ[variable])
    if checkout is not None:
        checkout = checkout.resolve()
        absent = [each for each in suite.tests if not (checkout / each).exists()]
        if absent:
            raise Missing(
                f"{name}: {checkout} has no {absent[0]}: is it a checkout of {suite.sources}?\n"
                f"    git clone {suite.sources}"
                + (f"\n    {suite.checkout_hint}" if suite.checkout_hint else "")
            )
    modules = (suite.package, "pytest", "pytest_timeout", *suite.needs)
    folder = None if suite.copied else checkout
    lacking = _lacking(python, modules, folder)
    if lacking:
        projects = {
            suite.package: suite.project,
            "pytest_timeout": "pytest-timeout",
            "pytest_jsonreport": "pytest-json-report",
        }
        wanted = " ".join(projects.get(each, each) for each in lacking)
        raise Missing(f"{name}: {python} has no {', '.join(lacking)}\n    {python} -m pip install {wanted}")
    tests = suite.tests
    if checkout is None:
        if not suite.installed:
            raise Missing(
                f"{name}: the installed package comes without its tests; they are in its sources\n"
                f"    git clone {suite.sources}\n"
                f"    tests/conformance/run.py --suite {name} --checkout {suite.sources.rpartition('/')[2]}"
            )
        absent = _lacking(python, suite.installed, None)
        if absent:
            raise Missing(
                f"{name}: the installed package has no {absent[0]}; take a checkout\n"
                f"    git clone {suite.sources}"
            )
        tests = tuple(each.replace(".", "/") + ".py" for each in suite.installed)
    version = _ask(python, f"import {suite.package} as m; print(getattr(m, '__version__', '?'))", folder)
    where = f"import {suite.package} as m, os; print(os.path.dirname(os.path.dirname(m.__file__)))"
    root = checkout or Path(_ask(python, where, None))
    runs = tuple((each,) for each in tests) if suite.apart else (tests,)
    return Found(suite, version, root, checkout is not None, runs)

"""What follows from findings before a fork: a warning, once; a refusal; nothing."""

from __future__ import annotations

import json
import os
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fork_targets
import forklift
import forklift.multiprocessing
import pytest
import support
from forklift.fork import Finding, policy
from plain_programs import FORKLIFT, python, write

fork = forklift.multiprocessing.get_context("fork")


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(policy, "_warned", set())
    monkeypatch.delenv("FORKLIFT_FORK_POLICY", raising=False)
    yield
    forklift.set_fork_policy(None)


@pytest.fixture
def camera() -> Iterator[None]:
    """A guard that finds something that will hang."""
    forklift.register_fork_guard(
        "camera", lambda: [Finding("camera", verdict="will hang", evidence="it grabs")]
    )
    yield
    forklift.register_fork_guard("camera", None)


def run(process: Any, **options: Any) -> int | None:
    process.start(**options)
    process.join(support.DEADLINE)
    code: int | None = process.exitcode
    return code


@pytest.mark.usefixtures("camera")
def test_a_library_is_warned_of_once() -> None:
    with pytest.warns(forklift.ForkWarning, match="camera will hang in a forked child: it grabs") as caught:
        codes = [run(fork.Process(target=fork_targets.nothing)) for _ in range(2)]
    assert codes == [0, 0]
    # Beside it Python 3.12 warns of each fork in a process with threads.
    (told,) = [each for each in caught if each.category is forklift.ForkWarning]
    assert told.filename == __file__, "it names the program's line"


@pytest.mark.usefixtures("camera")
def test_a_warning_that_is_an_error_leaves_nothing_half_done() -> None:
    process = fork.Process(target=fork_targets.nothing)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(forklift.ForkWarning):
            process.start()
        assert process.pid is None
        assert not process.is_alive()
        assert not support.children()
        # The same object can be started: the library has been warned of.
        assert run(process) == 0


@pytest.mark.usefixtures("camera")
@pytest.mark.parametrize("how", ["argument", "context", "process", "environment"])
def test_error_refuses_before_the_fork(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    context = forklift.multiprocessing.get_context("fork", fork_policy="error" if how == "context" else None)
    if how == "environment":
        monkeypatch.setenv("FORKLIFT_FORK_POLICY", "error")
    if how == "process":
        forklift.set_fork_policy("error")
    process = context.Process(target=fork_targets.nothing)
    with pytest.raises(forklift.ForkRefusedError, match="it grabs") as caught:
        process.start(**({"fork_policy": "error"} if how == "argument" else {}))
    assert caught.value.findings[0].library == "camera"
    assert process.pid is None
    assert run(process, fork_policy="allow") == 0


@pytest.mark.usefixtures("camera")
def test_a_context_with_a_policy_refuses_pools_and_executors() -> None:
    from concurrent.futures import ProcessPoolExecutor

    context = forklift.multiprocessing.get_context("fork", fork_policy="error")
    with pytest.raises(forklift.ForkRefusedError):
        context.Pool(2)
    with ProcessPoolExecutor(1, mp_context=context) as executor, pytest.raises(forklift.ForkRefusedError):
        executor.submit(os.getpid)


@pytest.mark.usefixtures("camera")
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_other_start_methods_fork_nothing_to_refuse(method: str) -> None:
    context = forklift.multiprocessing.get_context(method, fork_policy="error")
    assert run(context.Process(target=fork_targets.nothing), fork_policy="error") == 0


def test_allow_says_nothing(camera: None) -> None:
    forklift.set_fork_policy("allow")
    with warnings.catch_warnings():
        warnings.simplefilter("error", forklift.ForkWarning)
        assert run(fork.Process(target=fork_targets.nothing)) == 0


def test_a_python_thread_is_no_reason_to_warn_or_refuse() -> None:
    end = threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    with warnings.catch_warnings():
        warnings.simplefilter("error", forklift.ForkWarning)
        assert run(fork.Process(target=fork_targets.nothing)) == 0
    assert run(fork.Process(target=fork_targets.nothing), fork_policy="error") == 0
    end.set()
    thread.join()


def test_policies_that_do_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="fork policy"):
        forklift.set_fork_policy("never")
    with pytest.raises(ValueError, match="fork policy"):
        forklift.multiprocessing.get_context("fork", fork_policy="never")
    with pytest.raises(ValueError, match="fork policy"):
        fork.Process(target=fork_targets.nothing).start(fork_policy="never")
    monkeypatch.setenv("FORKLIFT_FORK_POLICY", "never")
    assert forklift.get_fork_policy() == "warn"


OS_FORK = """
import json, os, sys, threading, warnings
import forklift
forklift.install()
from forklift.fork import Finding
forklift.register_fork_guard("camera", lambda: [Finding("camera", verdict="will hang", evidence="it grabs")])
seen = []
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(2):
        if os.fork() == 0:
            os._exit(0)
        os.wait()
    seen.append([each.category.__name__ for each in caught if each.category is forklift.ForkWarning])
forklift.set_fork_policy("error")
try:
    os.fork()
    seen.append("forked")
except forklift.ForkRefusedError:
    seen.append("refused")
import multiprocessing
try:
    multiprocessing.get_context("fork").Process().start()
    seen.append("forked")
except forklift.ForkRefusedError:
    seen.append("refused")
import subprocess
seen.append(subprocess.run(["true"]).returncode)
print(json.dumps(seen))
"""


def test_with_install_os_fork_is_examined(tmp_path: Path) -> None:
    done = python(write(tmp_path / "program.py", OS_FORK), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [["ForkWarning"], "refused", "refused", 0]


TORCH = """
import os, torch
torch.ones(1_000_000).exp().sum()
if os.fork() == 0:
    torch.set_num_threads(1)
    torch.set_num_threads(2)
    assert float(torch.ones(1_000_000).sum()) == 1_000_000
    os._exit(0)
assert os.wait()[1] == 0
assert float(torch.ones(1_000_000).sum()) == 1_000_000
"""


@pytest.mark.parametrize("rest", ["on", "single"])
def test_torch_computes_on_both_sides_of_a_bare_fork(rest: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    program = (
        TORCH
        if rest == "on"
        else TORCH.replace("    torch.set_num_threads(1)\n    torch.set_num_threads(2)\n", "")
    )
    script = write(tmp_path / "program.py", program)
    done = python(*FORKLIFT, script, cwd=tmp_path, env={**os.environ, "FORKLIFT_FORK_REST": rest})
    assert done.returncode == 0, done.stderr
    # On one thread the child is slower, which is said.
    assert ("computes on one thread" in done.stderr) == (rest == "single")


OPENBLAS = """
import os, sys, threading
import numpy as np
import forklift
import forklift.multiprocessing as mp
from forklift import context

def state():
    return next(each.state for each in forklift.fork_report() if each.library == "OpenBLAS")

def fork():
    process = mp.get_context("fork").Process(target=sys.exit, args=(7,))
    process.start(fork_policy="allow")
    process.join()
    return process.exitcode

def os_fork():
    pid = os.fork()
    if pid == 0:
        os._exit(7)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

forklift.install()
large = np.ones((4000, 4000))  # a second and more of two threads
while state() == "busy":  # since the library was loaded
    pass
caller = threading.Thread(target=np.matmul, args=(large, large))
caller.start()
while state() != "busy":
    pass
context.set_context(fork_timeout=0.01)
for way in (fork, os_fork):
    try:
        print("no refusal:", way())
    except TimeoutError as error:
        print(error)
context.set_context(fork_timeout=60)
print(fork(), os_fork())
caller.join()
"""


def test_a_fork_while_openblas_computes_waits_and_is_refused_after_the_timeout(tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "2"}
    done = python(write(tmp_path / "program.py", OPENBLAS), cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    *refused, last = done.stdout.splitlines()
    assert last == "7 7"
    assert len(refused) == 2
    for line in refused:
        assert "no fork after waiting for 0.01" in line
        assert "within a call of OpenBLAS" in line

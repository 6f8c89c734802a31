"""``spawn`` and ``start_processes`` on every start method: what is the same as with torch, the control."""

from __future__ import annotations

import logging
import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest
import spawn_targets as targets
import support
from spawn_support import METHODS, begin_failing, gone, join, queues

# In a fresh interpreter each of torch's ranks imports torch first, so most cases have it by fork alone.
FEW = [("forklift", method) for method in METHODS] + [("torch", "fork")]
ALL = [*FEW, ("torch", "spawn"), ("torch", "forkserver")]
few = pytest.mark.parametrize(("mp", "method"), FEW, indirect=["mp"])
on_all = pytest.mark.parametrize(("mp", "method"), ALL, indirect=["mp"])


@pytest.fixture(autouse=True)
def _error_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """torch's error files stay where they were made."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@on_all
def test_every_rank_runs(mp: Any, method: str) -> None:
    (queue,) = queues(mp, method, 1)
    assert mp.start_processes(targets.put_rank, (queue,), 3, start_method=method) is None
    assert sorted(queue.get() for _ in range(3)) == [0, 1, 2]


@few
def test_a_context_is_joined_as_often_as_one_likes(mp: Any, method: str) -> None:
    context = mp.start_processes(targets.nothing, nprocs=2, join=False, start_method=method)
    assert context.pids() == [process.pid for process in context.processes]
    assert sorted(context.sentinels.values()) == [0, 1]
    assert len(context.error_files) == 2
    assert all(isinstance(each, str) for each in context.error_files)
    join(context)
    assert context.sentinels == {}
    assert context.join() is True
    assert context.join(timeout=0) is True
    assert [process.exitcode for process in context.processes] == [0, 0]


@few
def test_a_join_that_has_no_time(mp: Any, method: str) -> None:
    (ready,) = queues(mp, method, 1)
    context = mp.start_processes(targets.wait_for_ever, (ready,), 2, join=False, start_method=method)
    pids = dict(ready.get() for _ in range(2))
    for timeout in (0, 0.01, -1):
        assert context.join(timeout) is False
    for pid in pids.values():
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(mp.ProcessExitedException, match="terminated with signal SIGKILL"):
        join(context)


@pytest.mark.parametrize("nprocs", [0, -1])
@few
def test_no_ranks(mp: Any, method: str, nprocs: int) -> None:
    context = mp.start_processes(targets.nothing, nprocs=nprocs, join=False, start_method=method)
    assert context.join() is True
    assert context.pids() == []
    assert mp.start_processes(targets.nothing, nprocs=nprocs, start_method=method) is None


def test_an_unknown_start_method(mp: Any) -> None:
    with pytest.raises(ValueError, match="cannot find context for 'telepathy'"):
        mp.start_processes(targets.nothing, start_method="telepathy")


def test_spawn_always_spawns(mp: Any) -> None:
    with pytest.warns(FutureWarning, match=r"only supports start_method=spawn \(got: fork\)"):
        mp.spawn(targets.nothing, nprocs=1, start_method="fork")
    mp.spawn(targets.nothing, nprocs=2)


def test_the_old_name_of_the_context(mp: Any) -> None:
    context = mp.start_processes(targets.nothing, nprocs=1, join=False, start_method="fork")
    with pytest.warns(UserWarning, match="SpawnContext is renamed to ProcessContext since 1.4 release."):
        old = mp.SpawnContext(context.processes, context.error_files)
    assert isinstance(old, mp.ProcessContext)
    join(old)


@few
def test_daemons(mp: Any, method: str) -> None:
    context = mp.start_processes(targets.nothing, nprocs=1, join=False, daemon=True, start_method=method)
    assert context.processes[0].daemon is True
    join(context)


@pytest.mark.parametrize("which", [0, 1, 2])
@few
def test_an_exception(mp: Any, method: str, which: int) -> None:
    context = begin_failing(mp, method, which, "raise")
    pids = context.pids()
    with pytest.raises(mp.ProcessRaisedException) as caught:
        join(context)
    error = caught.value
    assert str(error).startswith(f"\n\n-- Process {which} terminated with the following error:\nTraceback (")
    assert str(error).endswith(f"\nValueError: legitimate exception from process {which}\n")
    assert (error.error_index, error.error_pid, error.msg) == (which, pids[which], str(error))
    assert gone(pids)


@pytest.mark.parametrize(
    ("how", "text", "code", "name"),
    [
        ("exit", "exit code 7", 7, None),
        ("exit text", "exit code 1", 1, None),
        ("_exit", "exit code 9", 9, None),
        ("SIGKILL", "signal SIGKILL", -9, "SIGKILL"),
        ("SIGTERM", "signal SIGTERM", -15, "SIGTERM"),
        ("SIGUSR1", "signal SIGUSR1", -10, "SIGUSR1"),
        ("SIGRTMIN+5", "signal <Unknown signal 39>", -39, "<Unknown signal 39>"),
    ],
)
@few
def test_an_exit(mp: Any, method: str, how: str, text: str, code: int, name: str | None) -> None:
    context = begin_failing(mp, method, 1, how, 2)
    pids = context.pids()
    with pytest.raises(mp.ProcessExitedException) as caught:
        join(context)
    error = caught.value
    assert str(error) == f"process 1 terminated with {text}"
    assert (error.error_index, error.error_pid) == (1, pids[1])
    assert (error.exit_code, error.signal_name) == (code, name)
    assert gone(pids)


@pytest.mark.parametrize("how", ["interrupt", "exit 0"])
@few
def test_what_is_no_failure(mp: Any, method: str, how: str) -> None:
    """A rank that ends early ends nobody else."""
    context = begin_failing(mp, method, 0, how, 2)
    assert context.join() is False
    assert context.join(0.01) is False
    os.kill(context.pids()[1], signal.SIGTERM)
    with pytest.raises(mp.ProcessExitedException, match="process 1 terminated with signal SIGTERM"):
        join(context)


@on_all
def test_all_fail(mp: Any, method: str) -> None:
    ready, go = queues(mp, method)
    context = mp.start_processes(targets.fail_all, (ready, go), 3, join=False, start_method=method)
    for _ in range(3):
        ready.get()
    for _ in range(3):
        go.put(None)
    with pytest.raises(mp.ProcessRaisedException, match=r"legitimate exception from process [012]\n"):
        join(context)


@few
def test_the_grace_period_is_for_ending_by_oneself(mp: Any, method: str) -> None:
    ready, out = queues(mp, method)
    event = mp.get_context(method).Event()
    context = mp.start_processes(
        targets.leave_in_grace, (ready, event, out), 3, join=False, start_method=method
    )
    for _ in range(3):
        ready.get()
    event.set()
    with pytest.raises(mp.ProcessExitedException, match="process 0 terminated with exit code 5"):
        join(context, grace_period=support.DEADLINE)
    assert sorted(out.get() for _ in range(2)) == [1, 2]
    assert [process.exitcode for process in context.processes] == [5, 0, 0]


@few
def test_who_ignores_sigterm_is_killed(mp: Any, method: str, caplog: pytest.LogCaptureFixture) -> None:
    (ready,) = queues(mp, method, 1)
    with caplog.at_level(logging.WARNING):
        logging.getLogger("torch").propagate = True
        context = mp.start_processes(targets.ignore_sigterm, (ready, 1), 2, join=False, start_method=method)
        for _ in range(2):
            ready.get()
        with pytest.raises(mp.ProcessExitedException, match="process 0 terminated with exit code 3"):
            join(context, grace_period=0.05)
    assert context.processes[1].exitcode == -signal.SIGKILL
    pid = context.pids()[1]
    said = [record.getMessage() for record in caplog.records]
    assert f"Terminating process {pid} via signal SIGTERM" in said
    assert f"Unable to shutdown process {pid} via SIGTERM , forcefully exiting via SIGKILL" in said


def test_a_function_that_cannot_be_pickled(mp: Any) -> None:
    for method in ("spawn", "forkserver"):
        with pytest.raises((pickle.PicklingError, AttributeError, TypeError)) as caught:
            mp.start_processes(lambda rank: None, nprocs=2, start_method=method)
        with pytest.raises(type(caught.value)) as standard:
            multiprocessing.get_context(method).Process(target=lambda rank: None).start()
        assert str(caught.value).partition(".<locals>")[0][:12] == str(standard.value)[:12]
        with pytest.raises(TypeError, match="cannot pickle"):
            mp.start_processes(targets.put_rank, (threading.Lock(),), 2, start_method=method)
    mp.start_processes(lambda rank: None, nprocs=2, start_method="fork")


def test_exceptions_are_pickled(mp: Any) -> None:
    module = sys.modules[mp.ProcessContext.__module__]
    one = mp.ProcessExitedException("text", 3, 1234, -9, "SIGKILL")
    for error in (one, mp.ProcessRaisedException("text", 3, 1234), module.ProcessException("text", 3, 1234)):
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error)
        assert str(again) == "text"
        assert (again.msg, again.error_index, again.error_pid) == ("text", 3, 1234)
    again = pickle.loads(pickle.dumps(one))
    assert (again.exit_code, again.signal_name) == (-9, "SIGKILL")
    assert issubclass(type(one), module.ProcessException)


@few
def test_args_keep_their_identities(mp: Any, method: str) -> None:
    (out,) = queues(mp, method, 1)
    shared = ["a list", {"of": "things"}]
    mp.start_processes(targets.same_objects, (shared, shared, out), 2, start_method=method)
    assert sorted(out.get() for _ in range(2)) == [(0, True, shared), (1, True, shared)]


@few
def test_a_rank_is_killed_whoever_it_is(mp: Any, method: str) -> None:
    for which in range(3):
        (ready,) = queues(mp, method, 1)
        context = mp.start_processes(targets.wait_for_ever, (ready,), 3, join=False, start_method=method)
        pids = dict(ready.get() for _ in range(3))
        os.kill(pids[which], signal.SIGKILL)
        with pytest.raises(mp.ProcessExitedException) as caught:
            join(context)
        assert (caught.value.error_index, caught.value.error_pid) == (which, pids[which])
        assert gone(list(pids.values()))

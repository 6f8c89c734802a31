"""Where ``spawn`` and ``start_processes`` do better than torch's; each case says why."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
import threading
import warnings
from pathlib import Path
from typing import Any

import forklift.multiprocessing as ours
import numpy as np
import pytest
import spawn_targets as targets
import support
from spawn_support import begin_failing, gone, is_running, join, queues


def test_the_cause_is_the_exception_itself(method: str) -> None:
    """torch's has the text alone."""
    with pytest.raises(ours.ProcessRaisedException) as caught:
        join(begin_failing(ours, method, 1, "own", 2))
    cause = caught.value.__cause__
    assert isinstance(cause, targets.OwnError)
    assert cause.number == 42
    assert cause.args == ("of our own", 42)


@pytest.mark.parametrize("how", ["unpicklable", "local"])
def test_an_exception_that_cannot_travel(method: str, how: str) -> None:
    with pytest.raises(ours.ProcessRaisedException) as caught:
        join(begin_failing(ours, method, 0, how, 1))
    assert caught.value.__cause__ is None
    text = "only one argument is kept" if how == "unpicklable" else "defined in a function"
    assert text in str(caught.value) or how == "unpicklable"


def test_the_traceback_shows_causes(method: str) -> None:
    with pytest.raises(ours.ProcessRaisedException) as caught:
        join(begin_failing(ours, method, 0, "chained", 1))
    assert "KeyError: 'the first'" in str(caught.value)
    assert str(caught.value).endswith("RuntimeError: the second\n")


def test_a_base_exception_is_reported(method: str) -> None:
    """With torch it is an exit code of 1, and the traceback lies on stderr."""
    with pytest.raises(ours.ProcessRaisedException, match="OwnBase: no Exception") as caught:
        join(begin_failing(ours, method, 0, "base", 1))
    assert isinstance(caught.value.__cause__, targets.OwnBase)


def test_arguments_that_cannot_be_unpickled_are_reported() -> None:
    """With torch it is an exit code of 1, and the traceback lies on stderr."""
    for method in ("spawn", "forkserver"):
        with pytest.raises(ours.ProcessRaisedException, match="RuntimeError: not here"):
            ours.start_processes(targets.put_rank, (targets.CannotUnpickle(),), 1, start_method=method)


def test_a_huge_traceback(method: str) -> None:
    """100 MB, through no pipe that would have to be read meanwhile."""
    with pytest.raises(ours.ProcessRaisedException) as caught:
        join(begin_failing(ours, method, 0, "huge", 1))
    assert len(str(caught.value)) > 100 << 20


def test_other_failures_are_notes(method: str) -> None:
    ready = ours.get_context(method).SimpleQueue()
    event = ours.get_context(method).Event()
    context = ours.start_processes(targets.two_failures, (ready, event), 3, join=False, start_method=method)
    for _ in range(3):
        ready.get()
    event.set()
    with pytest.raises(ours.ProcessRaisedException) as caught:
        join(context, grace_period=support.DEADLINE)
    notes = "\n".join(caught.value.__notes__)
    others = {0, 1, 2} - {caught.value.error_index}
    for rank in others:
        assert f"Process {rank} (pid {context.pids()[rank]}) terminated with an error, too:" in notes
    with pytest.raises(ours.ProcessRaisedException) as again:
        context.join()  # torch's answers True, or that a rank has got SIGTERM
    assert str(again.value) == str(caught.value)
    assert again.value.__notes__ == caught.value.__notes__


def test_error_files_hold_the_traceback_and_vanish(
    method: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whoever reads them finds torch's form. They have no name that a crash could leave behind."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = os.listdir("/dev/shm")
    context = begin_failing(ours, method, 0, "raise", 1)
    with pytest.raises(ours.ProcessRaisedException):
        join(context)
    path = context.error_files[0]
    assert path.startswith(f"/proc/{os.getpid()}/fd/")
    with open(path, "rb") as file:
        assert pickle.load(file).endswith("ValueError: legitimate exception from process 0\n")
    assert os.listdir("/dev/shm") == before
    assert not list(tmp_path.iterdir())


def test_error_files_of_the_program_are_read(tmp_path: Path) -> None:
    """A context over processes and files of the program's own, as torch's reads them."""
    path = tmp_path / "error"
    with open(path, "wb") as file:
        pickle.dump("Traceback of the program's own", file)
    process = ours.get_context("fork").Process(target=sys.exit, args=(1,))
    process.start()
    context = ours.ProcessContext([process], [str(path)])
    with pytest.raises(ours.ProcessRaisedException, match="Traceback of the program's own"):
        join(context)
    process = multiprocessing.get_context("fork").Process(target=sys.exit, args=(4,))
    process.start()
    context = ours.ProcessContext([process], [str(tmp_path / "absent")])
    with pytest.raises(ours.ProcessExitedException, match="exit code 4"):
        join(context)


def test_an_end_is_seen_though_a_grandchild_lives(method: str) -> None:
    """torch waits for a pipe that a forked grandchild holds open, too; ours for the process itself."""
    ready, _pids = queues(ours, method)
    context = ours.start_processes(_leave_a_child, (ready,), 2, join=False, start_method=method)
    grandchildren = [ready.get() for _ in range(2)]
    try:
        with pytest.raises(ours.ProcessExitedException, match="exit code 3"):
            join(context)
        assert all(is_running(pid) for pid in grandchildren)
    finally:
        for pid in grandchildren:
            os.kill(pid, signal.SIGKILL)
    support.until(lambda: gone(grandchildren), "the grandchildren's end")


def _leave_a_child(rank: int, ready: Any) -> None:
    pid = os.fork()
    if pid == 0:
        while True:
            signal.pause()
    ready.put(pid)
    os._exit(3)


def test_tensors_and_arrays_travel_as_handles(method: str) -> None:
    torch = pytest.importorskip("torch")
    import forklift

    queue = ours.get_context(method).SimpleQueue()
    tensor = torch.zeros(4).share_memory_()
    array = forklift.share(np.zeros(4, np.int64))
    ours.start_processes(targets.write_shared, ([tensor, tensor[:]], array, queue), 2, start_method=method)
    assert sorted(queue.get() for _ in range(2)) == [(0, 1.0, True), (1, 2.0, True)]
    assert tensor.tolist() == [1, 2, 0, 0]
    assert array.tolist() == [10, 20, 0, 0]


@pytest.mark.parametrize("large", [False, True])
def test_queues_beside_long_arguments(method: str, large: bool) -> None:
    """What is the same for all ranks is pickled once; queues are pickled for each."""
    queue = ours.get_context(method).SimpleQueue()
    items = [bytes(1 << 16 if large else 1)] * 2 + [os.urandom(1 << 12 if large else 1)] * 30
    ours.start_processes(targets.length, (items, queue), 2, start_method=method)
    wanted = sum(map(len, items))
    assert sorted(queue.get() for _ in range(2)) == [(0, wanted), (1, wanted)]


class _Counted:
    pickles = 0

    def __reduce__(self) -> Any:
        type(self).pickles += 1
        return bytes, (1000,)


def test_arguments_are_pickled_once() -> None:
    for method in ("spawn", "forkserver"):
        _Counted.pickles = 0
        queue = ours.get_context(method).SimpleQueue()
        ours.start_processes(targets.length, ([_Counted()], queue), 3, start_method=method)
        assert [queue.get()[1] for _ in range(3)] == [1000] * 3
        assert _Counted.pickles == 1


def test_in_turn_if_the_program_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank is started when the one before has its arguments, or has ended."""
    for value in ("0", "1"):
        monkeypatch.setenv(ours.ENV_VAR_PARALLEL_START, value)
        queue = ours.get_context("forkserver").SimpleQueue()
        items = [os.urandom(1 << 20)]
        ours.start_processes(targets.length, (items, queue), 2, start_method="forkserver")
        assert [queue.get()[1] for _ in range(2)] == [1 << 20] * 2


def test_ranks_do_not_import_torch() -> None:
    """torch's import it for their function `_wrap`, which is most of the time that a rank takes to start."""
    pytest.importorskip("torch")
    queue = ours.get_context("spawn").SimpleQueue()
    ours.start_processes(targets.has_torch, (queue,), 2, start_method="spawn")
    assert [queue.get() for _ in range(2)] == [False, False]
    # The fork server has what the main module had imported when it began: a program of its own.
    code = """
        import spawn_targets as targets
        import forklift.multiprocessing as ours
        queue = ours.get_context("forkserver").SimpleQueue()
        ours.start_processes(targets.has_torch, (queue,), 2, start_method="forkserver")
        print([queue.get() for _ in range(2)])
        """
    assert support.run_python(code).strip() == "[False, False]"


def test_a_start_that_fails_ends_the_ranks_before(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    """torch's leaves them running."""
    context_class = type(ours.get_context(method).Process())
    start, started = context_class.start, []

    def sometimes(self: Any) -> None:
        if len(started) == 2:
            raise OSError("no more processes")
        start(self)
        started.append(self)

    monkeypatch.setattr(context_class, "start", sometimes)
    ready = ours.get_context(method).SimpleQueue()
    with pytest.raises(OSError, match="no more processes"):
        ours.start_processes(targets.wait_for_ever, (ready,), 3, start_method=method)
    monkeypatch.undo()
    assert len(started) == 2
    assert gone([each.pid for each in started])


def test_two_threads_may_join(method: str) -> None:
    context = begin_failing(ours, method, 2, "exit")
    caught = []

    def wait() -> None:
        try:
            join(context)
        except ours.ProcessExitedException as error:
            caught.append(str(error))

    threads = [threading.Thread(target=wait) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(support.DEADLINE)
    assert caught == ["process 2 terminated with exit code 7"] * 2


def test_many_groups_leave_nothing(method: str) -> None:
    for _ in range(5):
        with pytest.raises(ours.ProcessRaisedException):
            ours.start_processes(targets.fail_now, ("raise",), 2, start_method=method)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            ours.start_processes(targets.nothing, nprocs=2, start_method=method)


def test_private_arrays_are_copies(method: str) -> None:
    queue = ours.get_context(method).SimpleQueue()
    array = np.arange(100_000)
    ours.start_processes(targets.length, ([array], queue), 2, start_method=method)
    assert [queue.get()[1] for _ in range(2)] == [100_000] * 2


def test_many_ranks() -> None:
    for method, nprocs in (("fork", 100), ("forkserver", 30)):
        queue = ours.get_context(method).Queue()
        ours.start_processes(targets.put_rank, (queue,), nprocs, start_method=method)
        assert sorted(queue.get(timeout=support.DEADLINE) for _ in range(nprocs)) == list(range(nprocs))


def test_names_and_processors(method: str) -> None:
    queue = ours.get_context(method).SimpleQueue()
    cpus = sorted(os.sched_getaffinity(0))
    sets = [cpus[0], set(cpus)]
    ours.start_ranks(targets.thread_name, (queue,), 3, start_method=method, cpus=sets, name="trainer")
    wanted = [(rank, f"trainer-{rank}", {cpus[0]} if rank % 2 == 0 else set(cpus)) for rank in range(3)]
    assert sorted(queue.get() for _ in range(3)) == wanted
    with pytest.raises(ValueError, match="cannot run on"):
        ours.start_ranks(targets.nothing, nprocs=1, start_method=method, cpus=[4095])

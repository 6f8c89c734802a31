"""``Pool(insights=True)``: where the workers' time goes, of programs whose counts and times are known."""

from __future__ import annotations

import multiprocessing
import signal
import subprocess
import sys
from dataclasses import FrozenInstanceError
from typing import Any

import forklift
import forklift.multiprocessing as mp
import pool_targets as targets
import pytest
import support
from forklift.multiprocessing._pool import insights as module
from forklift.multiprocessing._pool.insights import insights_of


@pytest.fixture
def fork() -> Any:
    return mp.get_context("fork")


def test_counts_are_exact(ctx: Any) -> None:
    with ctx.Pool(2, insights=True) as pool:
        pool.map(targets.square, range(100), 7)
        found = pool.insights()
        assert (found.tasks, found.items) == (15, 100)
        list(pool.imap(targets.square, range(10)))
        list(pool.imap_unordered(targets.square, range(10), 4))
        pool.starmap(targets.add, [(1, 2)] * 6, 3)
        pool.apply(targets.square, (3,))
        pool.apply_async(targets.add, (3,), {"y": 4}).get()
        found = pool.insights()
    assert (found.tasks, found.items) == (15 + 10 + 3 + 2 + 2, 100 + 10 + 10 + 6 + 2)
    assert sum(each.tasks for each in found.workers) == found.tasks
    assert [each.worker for each in found.workers] == [0, 1]
    assert found.started == 2


def test_times_of_a_known_program(fork: Any) -> None:
    with fork.Pool(2, targets.nap, (0.05,), insights=True) as pool:
        pool.map(targets.nap, [0.02] * 10 + [0.2], 1)
        found = pool.insights()
    assert 0.4 <= found.working < found.total
    assert 0.1 <= found.initializer <= found.starting
    assert found.total == pytest.approx(found.starting + found.waiting + found.working + found.answering)
    # All of a worker's time is in one of the columns: from its start on, which is soon after the pool's.
    for each in found.workers:
        assert each.total <= found.elapsed * 1.01 + 0.01
    ratios = found.starting_ratio + found.waiting_ratio + found.working_ratio + found.answering_ratio
    assert ratios == pytest.approx(1)


def test_the_slowest_tasks_are_named(fork: Any) -> None:
    with fork.Pool(2, insights=True) as pool:
        pool.map(targets.square, range(1000), 1)
        pool.apply(targets.spin, (0.02,))
        pool.apply(targets.nap, kwds={"seconds": 0.03})
        pool.map(targets.nap, [0.01, 0.03, 0.0], 3)
        found = pool.insights()
    slowest = [each.task for each in found.slowest]
    assert len(slowest) == 5
    assert slowest[:3] == ["nap(0.01) and 2 more", "nap(seconds=0.03)", "spin(0.02)"]
    assert [each.seconds for each in found.slowest] == sorted(
        (e.seconds for e in found.slowest), reverse=True
    )
    assert found.slowest[0].seconds >= 0.04


def test_failing_tasks_count(fork: Any) -> None:
    with fork.Pool(1, insights=True) as pool:
        for _ in range(3):
            with pytest.raises(LookupError):
                pool.apply(targets.refuse_negative, (-1,))
        assert pool.insights().tasks == 3


def test_an_argument_whose_repr_fails(fork: Any) -> None:
    with fork.Pool(1, insights=True) as pool:
        pool.apply(targets.same, (targets.Shy(),))
        assert "<Shy instance" in pool.insights().slowest[0].task


def test_the_figures_of_killed_workers_stay(fork: Any) -> None:
    with fork.Pool(2, insights=True) as pool:
        pool.map(targets.nap, [0.01] * 20, 1)
        before = pool.insights()
        with pytest.raises(forklift.WorkerDiedError):
            pool.apply(targets.die, (signal.SIGKILL,))
        pool.map(targets.square, range(20), 1)
        found = pool.insights()
        # The other worker may do all of the tasks before the new one is ready.
        support.until(lambda: pool.insights().started == 3, "the dead worker's successor to start")
    assert before.tasks == 20
    assert found.tasks == 40
    assert found.working >= before.working >= 0.2


def test_retries_and_time_outs(fork: Any) -> None:
    with fork.Pool(1, insights=True) as pool:
        with pytest.raises(forklift.TaskTimeoutError):
            pool.apply(targets.nap, (30,), timeout=0.1)
        with pytest.raises(forklift.WorkerDiedError):
            pool.apply(targets.die, (signal.SIGKILL,), retries=2)
        found = pool.insights()
    assert found.tasks == 0
    assert found.working >= 0.1
    assert found.slowest[0].seconds >= 0.1
    assert "during which worker" in found.slowest[0].task
    assert found.started >= 4


def test_replaced_workers_and_spares(fork: Any) -> None:
    with fork.Pool(1, maxtasksperchild=2, warm_spare=True, insights=True) as pool:
        pool.map(targets.square, range(20), 1)
        pool.close()
        pool.join()
        found = pool.insights()
    assert found.tasks == 20
    assert found.started >= 10
    assert len(found.workers) == 2


def test_they_outlive_the_pool(fork: Any) -> None:
    with fork.Pool(2, insights=True) as pool:
        pool.map(targets.square, range(50), 1)
    found = pool.insights()
    assert found.tasks == 50
    assert pool.insights().total == found.total  # no worker is left whose time would go on


def test_a_pool_without_them(fork: Any) -> None:
    with fork.Pool(1) as pool:
        with pytest.raises(ValueError, match="insights=True"):
            pool.insights()
        with pytest.raises(ValueError, match="insights=True"):
            pool.map(targets.square, [1], progress="insights")
        with pytest.raises(ValueError, match="'insight'"):
            pool.imap(targets.square, [1], progress="insight")
        with pytest.raises(ValueError, match="'insight'"):
            pool.map_async(targets.square, [1], progress="insight")


def test_a_program_can_read_and_print_them(fork: Any) -> None:
    with fork.Pool(1, insights=True) as pool:
        pool.map(targets.square, range(3), 1)
        found = pool.insights()
    text = str(found)
    assert "1 worker in" in text
    assert "3 tasks, 3 items; 1 process started" in text
    assert "square(" in text
    with pytest.raises(FrozenInstanceError):
        found.tasks = 4  # type: ignore[misc]


BAR = """
import forklift.multiprocessing as mp
with mp.get_context("fork").Pool(2, insights=True) as pool:
    pool.map(abs, range(30), progress="insights")
    list(pool.imap(abs, range(40), progress="insights"))
"""


def test_the_bar_says_how_busy_the_workers_are() -> None:
    pytest.importorskip("tqdm")
    done = subprocess.run([sys.executable, "-c", BAR], capture_output=True, text=True, check=True)
    assert "30/30" in done.stderr
    assert "40/40" in done.stderr
    assert done.stderr.count("waiting ") >= 2


# --- what to change. The figures are made up, in ns: five times, then processes, tasks, items, and those of
# lists.

MS = 10**6


class Engine:
    def __init__(self, elapsed: int, *rows: list[int], slowest: int = 0) -> None:
        self._found = (elapsed, list(rows), [(slowest, 1, "f()")] if slowest else [])

    def insights(self) -> Any:
        return self._found


def advice(engine: Engine, method: str = "fork") -> tuple[str, ...]:
    return insights_of(engine, method).advice


def test_nothing_to_change() -> None:
    busy = [5 * MS, 0, 50 * MS, 900 * MS, 5 * MS, 1, 100, 100, 100, 100, 900 * MS]
    assert advice(Engine(1000 * MS, busy, busy)) == ()
    assert advice(Engine(1000 * MS, [0, 0, 20 * MS, MS, MS, 1, 2, 2, 2, 2, MS])) == ()
    assert advice(Engine(MS, [0] * 11)) == ()


def test_too_few_tasks() -> None:
    idle = [5 * MS, 0, 700 * MS, 290 * MS, 5 * MS, 1, 10, 10, 0, 0, 0]
    assert advice(Engine(1000 * MS, idle)) == (
        "workers wait 70% of their time for tasks: more workers will not help",
    )
    one_long = Engine(1000 * MS, idle, idle, slowest=800 * MS)
    assert advice(one_long) == (
        "workers wait 70% of their time for tasks, since one task takes 0.80 s of 1.00 s: split it, or send"
        " it first",
    )


def test_too_small_chunks() -> None:
    small = [5 * MS, 0, 600 * MS, 200 * MS, 200 * MS, 1, 10_000, 10_000, 10_000, 10_000, 200 * MS]
    assert advice(Engine(1000 * MS, small)) == (
        "tasks of 1 item take 20 us, hardly more than sending them: use a larger chunksize, such as 50",
    )


def test_dear_starts() -> None:
    start = [400 * MS, 0, 10 * MS, 500 * MS, 5 * MS, 1, 100, 100, 100, 100, 500 * MS]
    assert advice(Engine(1000 * MS, start), "spawn") == (
        "starting takes 44% of the workers' time (0.40 s each): use one pool for all calls, or the start"
        " method forkserver",
    )
    initializer = [50 * MS, 350 * MS, *start[2:]]
    assert "most of it the initializer" in advice(Engine(1000 * MS, initializer))[0]
    replaced = [*start[:5], 20, *start[6:]]
    assert "raise maxtasksperchild" in advice(Engine(1000 * MS, replaced))[0]


def test_large_results() -> None:
    large = [5 * MS, 0, 10 * MS, 500 * MS, 400 * MS, 1, 100, 100, 100, 100, 500 * MS]
    (said,) = advice(Engine(1000 * MS, large))
    assert "sending results takes 44%" in said


def test_no_clock_and_no_import_without_them(fork: Any) -> None:
    """dataclasses are imported by those that ask only: each fresh worker imports the pool's modules."""
    code = (
        "import sys, forklift.multiprocessing.pool, forklift.multiprocessing._pool.workers as w;"
        f"assert {module.__name__!r} not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_standard_librarys_engine_has_none() -> None:
    class Own(mp.pool.Pool):
        def _setup_queues(self) -> None:
            super()._setup_queues()  # type: ignore[misc]

    with Own(1, insights=True, context=multiprocessing.get_context("fork")) as pool:
        assert pool.map(targets.square, [2]) == [4]
        with pytest.raises(ValueError, match="engine"):
            pool.insights()

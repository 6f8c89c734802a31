"""What a pool is asked for beyond the standard library's."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import forklift
import forklift.multiprocessing as mp
import pool_targets as targets
import pytest
import support


@pytest.fixture
def fork() -> Any:
    return mp.get_context("fork")


def test_initializer_and_finalizer(ctx: Any, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    with ctx.Pool(1, targets.write_down, (str(mark),), finalizer=targets.finish) as pool:
        assert pool.apply(targets.what_was_told) == [str(mark)]
        assert not mark.exists()
        pool.close()
        pool.join()
    assert mark.read_text() == "finished"


def test_queues_and_broadcasts_reach_workers_by_the_initializer(ctx: Any) -> None:
    queue: Any = ctx.Queue()
    stream: Any = forklift.Broadcast()
    latest: Any = forklift.Latest()
    latest.put("newest")
    with stream.subscribe() as reader, ctx.Pool(2, targets.keep, (queue, stream, latest)) as pool:
        assert pool.map(targets.use_kept, range(10), 1) == [("newest", x) for x in range(10)]
        assert {queue.get(timeout=support.DEADLINE) for _ in range(10)} == set(range(10))
        assert {reader.get(support.DEADLINE) for _ in range(10)} == set(range(0, 100, 10))
        # As in the standard library: by inheritance, and not in messages.
        for shared in (queue, stream):
            with pytest.raises(RuntimeError, match="inheritance"):
                pool.apply(targets.same, (shared,))


def test_worker_ids(ctx: Any) -> None:
    with ctx.Pool(3) as pool:
        assert set(pool.map(targets.who, range(12), 1)) == {0, 1, 2}
    with pytest.raises(RuntimeError, match="no worker"):
        targets.worker_id()


def test_a_replaced_worker_is_like_the_first(fork: Any) -> None:
    """Its main thread is the interpreter's, though another thread of the parent has forked it."""
    with fork.Pool(1, targets.handle_signals, maxtasksperchild=1) as pool:
        assert [pool.apply(targets.is_main_thread) for _ in range(3)] == [True] * 3


def test_a_successor_has_its_predecessors_number(fork: Any) -> None:
    with fork.Pool(1, maxtasksperchild=1) as pool:
        pids = {pool.apply(targets.pid_of) for _ in range(4)}
        assert len(pids) == 4
        assert pool.apply(targets.who) == 0


def test_recycling_with_a_warm_spare(fork: Any) -> None:
    with fork.Pool(1, maxtasksperchild=2, warm_spare=True) as pool:
        support.until(lambda: len(pool._pool) == 2, "the spare one is there")
        pids = [pool.apply(targets.pid_of) for _ in range(8)]
        assert len(set(pids)) == 4


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_memory_limit(method: str) -> None:
    ballast = bytearray(os.urandom(1) * (300 << 20))  # what a forked worker has of its parent does not count
    with mp.get_context(method).Pool(1, max_memory=200 << 20) as pool:
        first = pool.apply(targets.grow, (1,))
        assert pool.apply(targets.pid_of) == first
        pool.apply(targets.grow, (400,))
        support.until(lambda: pool.apply(targets.pid_of) != first, "a worker that has grown is replaced")
    assert len(ballast) == 300 << 20


def test_pinning(fork: Any) -> None:
    allowed = sorted(os.sched_getaffinity(0))
    with fork.Pool(2, cpus=allowed) as pool:
        assert {tuple(each) for each in pool.map(targets.cpus, range(20), 1)} <= {(cpu,) for cpu in allowed}
    with fork.Pool(1, cpus=[allowed]) as pool:
        assert pool.apply(targets.cpus) == allowed


def test_nested_pools(fork: Any) -> None:
    with fork.Pool(2, nested=True) as pool:
        assert pool.map(targets.nested, range(2), 1) == [[1, 4, 9]] * 2
    with fork.Pool(1) as pool, pytest.raises(AssertionError, match="daemonic"):
        pool.apply(targets.nested)


def test_logging(ctx: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), ctx.Pool(2, log=True) as pool:
        pool.map(targets.log, ["one", "two", "three"], 1)
        pool.close()
        pool.join()
    assert sorted(record.getMessage() for record in caplog.records) == ["one", "three", "two"]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_records_are_handled_once(method: str, tmp_path: Path) -> None:
    """By whichever loggers have handlers: the root's, one below, one that does not propagate."""
    script = tmp_path / "main.py"
    script.write_text(LOGGING)
    command = [sys.executable, str(script), method, str(Path(__file__).parents[1])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    wanted = ["apart: to apart", "below: to below", "below: to below.deeper", "root: to below"]
    wanted += ["root: to below.deeper", "root: to elsewhere"]
    assert sorted(done.stderr.splitlines()) == wanted


# At the main module's top level, so that fresh interpreters have the handlers as well.
LOGGING = """
import logging, sys
sys.path.insert(0, sys.argv[2])
import pool_targets as targets

for name in (None, "below", "apart"):
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter(f"{name or 'root'}: %(message)s"))
    logging.getLogger(name).addHandler(handler)
logging.getLogger("apart").propagate = False

if __name__ == "__main__":
    import forklift.multiprocessing as mp
    with mp.get_context(sys.argv[1]).Pool(2, log=True) as pool:
        pool.map(targets.log_to, ["below", "below.deeper", "apart", "elsewhere"], 1)
        pool.close()
        pool.join()
"""


def test_a_pool_at_rest_uses_no_processor(fork: Any) -> None:
    def used(pids: list[int]) -> float:
        return sum(int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) for pid in pids) / 1e9

    with fork.Pool(2) as pool:
        pool.map(targets.square, range(100), 1)
        time.sleep(0.2)
        pids = [process.pid for process in pool._pool]
        before = used(pids)
        time.sleep(1)
        assert used(pids) - before < 0.05


def test_a_watcher_of_progress(ctx: Any, tmp_path: Path) -> None:
    """`result._number_left * result._chunksize`, which packages show, falls while nobody waits."""
    first, gate = tmp_path / "first", tmp_path / "gate"
    with ctx.Pool(2) as pool:
        turns = [(i, str(first if i < 50 else gate)) for i in range(101)]
        result = pool.map_async(targets.pass_gate, turns, chunksize=10)
        assert (result._number_left, result._chunksize) == (11, 10)
        first.touch()
        support.until(lambda: result._number_left == 6, "the chunks before the gate")
        assert not result.ready()
        assert not result._event.is_set()
        assert result._number_left == 6
        gate.touch()
        support.until(lambda: result._number_left == 0, "all chunks")
        assert result._event.wait(support.DEADLINE)
        assert len(result.get(0)) == 101
        assert result._number_left == 0
        # What cannot be sent has ended, too.
        refused = pool.map_async(targets.same, [1, targets.Unpicklable(), 3], chunksize=1)
        with pytest.raises(RuntimeError, match="will not be pickled"):
            refused.get(support.DEADLINE)
        assert refused._number_left == 0
        assert pool.map_async(targets.same, [])._number_left == 0
        unordered = pool.imap_unordered(targets.same, range(5))
        assert sorted(unordered) == list(range(5))
        assert (unordered._length, unordered._index) == (5, 5)

"""docs/migration.md: every row names the tests of what it says. What has no test elsewhere is tested here."""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import forklift
import numpy as np
import pool_targets
import pytest
import support
import targets

HERE = Path(__file__).parents[1]
DOCUMENT = HERE.parents[1] / "docs" / "migration.md"


def rows() -> list[list[str]]:
    """The cells of every row of every table, without the heads."""
    cells = [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in DOCUMENT.read_text().splitlines()
        if line.startswith("|")
    ]
    return [row for row in cells if row[0] != "old call" and not set(row[0]) <= set("-")]


def functions(module: str) -> set[str]:
    (file,) = HERE.glob(f"*/{module}.py")
    tree = ast.parse(file.read_text())
    return {each.name for each in tree.body if isinstance(each, ast.FunctionDef)}


def test_every_row_names_its_tests() -> None:
    found = rows()
    assert len(found) > 40
    wrong = []
    for row in found:
        named = re.findall(r"`(test_\w+)::(test_\w+)(?:\[\w+\])?`", row[-1]) if len(row) == 5 else []
        wrong += [row[0]] if not named else [f"{m}::{f}" for m, f in named if f not in functions(m)]
    assert not wrong


def run(code: str, *arguments: str, cwd: Path | None = None) -> str:
    """What a program says that is an interpreter of its own."""
    command = [sys.executable, "-W", "ignore", *arguments] if arguments else [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


def needs(package: str) -> None:
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"needs {package}")


# --- multiprocessing


def test_other_systems_are_told() -> None:
    code = """
import sys
sys.platform = "sunos5"
try:
    import forklift.multiprocessing
except ImportError as error:
    print(error)
"""
    assert run(code) == "forklift.multiprocessing needs Linux, not sunos5\n"


def test_who_is_not_reached_by_install() -> None:
    code = """
import importlib, subprocess, sys
import forklift
forklift.install()
from multiprocessing import queues
print(queues.Queue.__module__)
ask = "import multiprocessing.queues as q; print(q.Queue.__module__)"
print(subprocess.run([sys.executable, "-c", ask], stdout=subprocess.PIPE, text=True).stdout.strip())
print(importlib.reload(queues).Queue.__module__)
"""
    ours, theirs = "forklift.multiprocessing.queues", "multiprocessing.queues"
    assert run(code).split() == [ours, theirs, theirs]


def test_put_has_no_thread(ctx: Any) -> None:
    before = threading.active_count()
    queue = ctx.Queue()
    for _ in range(100):
        queue.put("x" * 1000)
    assert threading.active_count() == before
    assert queue.qsize() == 100


def test_an_event_that_is_cleared_at_once(ctx: Any) -> None:
    event, began, answer = ctx.Event(), ctx.Queue(), ctx.Queue()
    process = ctx.Process(target=targets.wait_for_event, args=(event, began, answer))
    process.start()
    began.get(timeout=support.DEADLINE)
    support.until_asleep(process.pid)
    event.set()
    event.clear()
    assert answer.get(timeout=support.DEADLINE) is True
    process.join()


STRANGERS = """
import subprocess, sys
from multiprocessing.connection import Client, Listener
import forklift.multiprocessing as mp
mp.current_process().authkey = b"of both"  # descriptors are handed on to those who know it
if len(sys.argv) > 2:
    own = mp.Queue() if sys.argv[2] == "with a domain" else None
    with Client(sys.argv[1]) as connection:
        try:
            with connection.recv() as received:
                received.send("here")
        except Exception as error:
            print(type(error).__name__)
else:
    mine, theirs = mp.Pipe()
    with Listener(family="AF_UNIX") as listener:
        other = subprocess.Popen([sys.executable, sys.argv[0], listener.address, sys.argv[1]])
        with listener.accept() as connection:
            connection.send(theirs)
            other.wait()
            print(mine.recv() if mine.poll() else "nothing")
"""


@pytest.mark.parametrize(
    ("receiver", "said"), [("without", "here\n"), ("with a domain", "NotAttachedError\nnothing\n")]
)
def test_a_connection_for_another_tree_of_processes(receiver: str, said: str, tmp_path: Path) -> None:
    script = tmp_path / "strangers.py"
    script.write_text(STRANGERS)
    assert run("", str(script), receiver) == said


# --- torch.multiprocessing, joblib

STRATEGY = """
import os
import torch
import torch.multiprocessing
import forklift.multiprocessing as mp
for strategy in ("file_system", "file_descriptor"):
    torch.multiprocessing.set_sharing_strategy(strategy)
    queue = mp.Queue()
    queue.put(torch.ones(1))
    queue.get(timeout=5)
    names, descriptors = set(os.listdir("/dev/shm")), len(os.listdir("/proc/self/fd"))
    tensors = [torch.ones(1000) for _ in range(20)]
    for tensor in tensors:
        queue.put(tensor)
    got = [queue.get(timeout=5) for _ in tensors]
    assert len(os.listdir("/proc/self/fd")) == descriptors
    got[0][0] = 7
    print(tensors[0][0].item(), len(set(os.listdir("/dev/shm")) - names))
"""


def test_torchs_sharing_strategies() -> None:
    needs("torch")
    assert run(STRATEGY).splitlines() == ["7.0 20", "7.0 0"]


SPAWN = """
import torch
import torch.multiprocessing as tmp

def train(rank, queue, tensor):
    tensor[rank] = rank + 1
    queue.put((rank, type(queue).__module__))

if __name__ == "__main__":
    queue, tensor = tmp.get_context("spawn").SimpleQueue(), torch.zeros(2).share_memory_()
    tmp.spawn(train, args=(queue, tensor), nprocs=2)
    print(sorted([queue.get(), queue.get()]), tensor.tolist())
"""


def test_torchs_spawn_under_install(tmp_path: Path) -> None:
    needs("torch")
    script = tmp_path / "script.py"
    script.write_text(SPAWN)
    ours = "forklift.multiprocessing.queues"
    said = run("", "-m", "forklift", str(script), cwd=tmp_path)
    assert said == f"[(0, '{ours}'), (1, '{ours}')] [1.0, 2.0]\n"


JOBLIB = """
import joblib
import numpy as np

def writeable(array):
    return array.flags.writeable

if __name__ == "__main__":
    arrays = [np.zeros(200_000)] * 4
    for options in ({"max_nbytes": "1M"}, {"max_nbytes": None}):
        found = joblib.Parallel(2, backend="multiprocessing", **options)(
            joblib.delayed(writeable)(each) for each in arrays
        )
        print(set(found))
"""


def test_joblibs_large_arguments(tmp_path: Path) -> None:
    needs("joblib")
    script = tmp_path / "script.py"
    script.write_text(JOBLIB)
    assert run("", "-m", "forklift", str(script), cwd=tmp_path) == "{False}\n{True}\n"


# --- mpire


def test_shared_objects_for_every_worker(ctx: Any) -> None:
    shared = forklift.share(np.zeros(10))
    frozen = forklift.freeze({"names": ["a", "b"], "weights": np.arange(3.0)})
    with ctx.Pool(2, pool_targets.tell, (shared, frozen)) as pool:
        assert pool.map(pool_targets.mark_shared, range(10), 1) == [("b", 3.0)] * 10
    assert shared.tolist() == [1.0] * 10


def test_pieces_of_an_array(ctx: Any) -> None:
    array = np.arange(100_000.0)
    with ctx.Pool(2) as pool:
        pieces = pool.map(pool_targets.square, np.array_split(array, 4), 1)
    assert (np.concatenate(pieces) == array**2).all()


def test_dicts_as_keyword_arguments_need_a_wrapper(ctx: Any) -> None:
    with ctx.Pool(2) as pool:
        assert pool.starmap(pool_targets.add, [(1, 2), (3, 4)]) == [3, 7]
        assert pool.map(pool_targets.add_named, [{"x": 1, "y": 2}]) == [3]

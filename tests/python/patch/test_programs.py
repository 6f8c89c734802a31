"""Unmodified programs of other people's libraries: `python -m forklift` gives what plain Python gives."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parents[1] / "programs"
NEEDS = {
    "dataloader": "torch",
    "joblib_arrays": "joblib",
    "vector_env": "gymnasium",
    "executor": "numpy",
    "cross_validation": "sklearn",
}


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *arguments], cwd=cwd, capture_output=True, text=True, timeout=90
    )
    assert done.returncode == 0, done.stderr
    return done


def reported(text: str) -> dict[str, str]:
    """The rows of --report."""
    rows = re.findall(
        r"^  (.+?) {2,}(\S+(?: [kMGT]?B)?)", text.partition("forklift: what travelled")[2], re.M
    )
    return dict(rows)


def test_every_program_is_known() -> None:
    assert {each.stem for each in PROGRAMS.glob("*.py")} == set(NEEDS)


@pytest.mark.parametrize("name", NEEDS)
def test_equal_results(name: str, tmp_path: Path) -> None:
    if importlib.util.find_spec(NEEDS[name]) is None:
        pytest.skip(f"needs {NEEDS[name]}")
    program = str(PROGRAMS / f"{name}.py")
    plain = run(program, cwd=tmp_path)
    ours = run("-m", "forklift", "--report", program, cwd=tmp_path)
    assert plain.stdout
    assert ours.stdout == plain.stdout
    said = reported(ours.stderr)
    assert int(said["messages"].replace(",", "")) > 20
    assert said["through pipes"] == "0 B"


REPORTED = """
import multiprocessing as mp, os, signal, sys
import numpy as np
import forklift

def child(queue):
    queue.put(np.zeros(125_000))            # copied: 1 MB
    queue.put(b"x" * 1000)                  # inside
    os.kill(os.getpid(), signal.SIGKILL)    # its counts stay

if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    queue = mp.Queue()
    processes = [mp.Process(target=child, args=(queue,)) for _ in range(2)]
    for process in processes:
        process.start()
    for _ in range(4):
        queue.get()
    for process in processes:
        process.join()
    tensor = forklift.zeros((1 << 18,))
    queue.put(tensor)                       # a handle: 1 MB
    queue.get()
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_the_report_counts_what_travelled(method: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(REPORTED)
    said = reported(run("-m", "forklift", "--report", str(script), method, cwd=tmp_path).stderr)
    assert said["processes"] == "3"
    assert said["messages"] == "5"
    assert said["copied"] == "2.0 MB"
    assert said["as handles"] == "1.0 MB"
    assert said["through pipes"] == "0 B"
    assert said["inside messages"].endswith("kB")
    assert said["saved"] == "3.1 MB"


POOLED = """
import multiprocessing as mp, sys
import numpy as np

def double(array):
    return 2 * array

if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    array = np.ones(125_000)                                      # 1 MB, there and back
    with mp.Pool(2) as pool:
        pool.map(abs, range(1000), chunksize=1)                   # 2000 messages
        pool.map(double, [array] * 5)                             # 10, copied
        list(pool.imap(abs, iter(range(40))))                     # 80
        pool.map_async(abs, range(50), chunksize=1).get()         # 100
        pool.apply_async(abs, (-1,)).get()                        # 2
        pool.apply(bytes, (1000,))                                # 2, one of 1 kB
        pool.close()
        pool.join()
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_the_report_counts_a_pools_tasks_and_results(method: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(POOLED)
    said = reported(run("-m", "forklift", "--report", str(script), method, cwd=tmp_path).stderr)
    assert said["processes"] in ("2", "3")  # the first worker may have done all
    assert said["messages"] == f"{2000 + 10 + 80 + 100 + 2 + 2:,}"
    assert said["copied"] == "10.0 MB"
    assert said["through pipes"] == "0 B"
    assert said["inside messages"].endswith("kB")


def test_without_it_nothing_is_said(tmp_path: Path) -> None:
    assert run("-m", "forklift", "-c", "import multiprocessing; print(1)", cwd=tmp_path).stderr == ""


def test_a_program_that_sends_nothing(tmp_path: Path) -> None:
    done = run("-m", "forklift", "--report", "-c", "print(1)", cwd=tmp_path)
    assert done.stdout == "1\n"
    assert reported(done.stderr)["messages"] == "0"

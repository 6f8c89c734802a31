"""install() and `python -m forklift`: concurrent.futures has Forklift's ProcessPoolExecutor."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
{early}
import forklift
forklift.install()
{late}
import concurrent.futures, multiprocessing, pickle

def square(x):
    return x * x

if __name__ == "__main__":
    import concurrent.futures.process
    assert concurrent.futures.ProcessPoolExecutor is forklift.ProcessPoolExecutor
    assert concurrent.futures.process.ProcessPoolExecutor is forklift.ProcessPoolExecutor
    from concurrent.futures import ProcessPoolExecutor
    assert pickle.loads(pickle.dumps(ProcessPoolExecutor)) is ProcessPoolExecutor
    assert issubclass(ProcessPoolExecutor, ProcessPoolExecutor.__mro__[1])
    old = ProcessPoolExecutor.__mro__[1]
    assert pickle.loads(pickle.dumps(old)) is old and old.__name__ == "ProcessPoolExecutor"
    for context in (None, multiprocessing.get_context(sys.argv[1])):
        with ProcessPoolExecutor(2, mp_context=context) as executor:
            assert executor._calls is None
            print(list(executor.map(square, range(4))), executor._calls is not None)
    with old(2, mp_context=multiprocessing.get_context(sys.argv[1])) as executor:
        ours = isinstance(executor._call_queue, multiprocessing.queues.Queue)
        print(list(executor.map(square, range(4))), ours)
"""
SAID = "[0, 1, 4, 9] True\n" * 3


def run(script: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments[:-1], str(script), arguments[-1]],
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize(
    ("early", "late"),
    [
        ("", ""),
        ("", "from concurrent.futures import ProcessPoolExecutor"),
        ("import concurrent.futures", ""),
        ("import concurrent.futures.process", ""),
        ("from concurrent.futures import ProcessPoolExecutor as Early", ""),
        ("from forklift import ProcessPoolExecutor as Early", ""),
    ],
)
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_whatever_was_imported_before(tmp_path: Path, early: str, late: str, method: str) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM.format(early=early, late=late))
    assert run(script, method) == SAID


def test_programs_that_know_nothing_of_it(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(
        """
import sys
from concurrent.futures import ProcessPoolExecutor, process

def square(x):
    return x * x

if __name__ == "__main__":
    import multiprocessing
    assert process.ProcessPoolExecutor is ProcessPoolExecutor
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(sys.argv[1])) as executor:
        print(ProcessPoolExecutor.__module__.partition(".")[0], list(executor.map(square, range(3))))
"""
    )
    for method in ("fork", "spawn", "forkserver"):
        assert run(script, "-m", "forklift", method) == "forklift [0, 1, 4]\n"


def test_subclasses_of_private_parts_have_the_standard_engine(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(
        """
import sys
import forklift
forklift.install()
from concurrent.futures import ProcessPoolExecutor

class Mine(ProcessPoolExecutor):
    def _adjust_process_count(self):
        super()._adjust_process_count()

class Plain(ProcessPoolExecutor):
    def submit(self, fn, /, *args, **kwargs):
        seen.append(args)
        return super().submit(fn, *args, **kwargs)

seen = []
if __name__ == "__main__":
    with Mine(2) as executor:
        print(executor.submit(abs, -1).result(), list(executor.map(abs, [-2, -3])), executor._calls)
    with Plain(2) as executor:
        print(executor.submit(abs, -1).result(), list(executor.map(abs, [-2, -3])), len(seen))
"""
    )
    assert run(script, "fork") == "1 [2, 3] None\n1 [2, 3] 3\n"

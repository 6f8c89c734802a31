"""joblib's default backend and loky's executors: unmodified programs in which `multiprocessing` is ours.

loky's children are started by itself and know nothing of Forklift; its queues are subclasses with a feeder of
their own.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("joblib")

BEGIN = {
    "plain": "",
    "installed first": "import forklift; forklift.install()",
    "installed between": "import multiprocessing.queues, multiprocessing.synchronize; "
    "import forklift; forklift.install()",
    "installed last": "import joblib.externals.loky; import forklift; forklift.install()",
}

JOBLIB = """
import joblib, numpy as np, os
def square(x): return x * x
def refuse(x): raise LookupError(x)
if __name__ == "__main__":
    print(joblib.Parallel(2)(joblib.delayed(square)(i) for i in range(20)))
    arrays = [np.full(n, 2.0) for n in (10, 10_000, 300_000)]
    print([each.sum() for each in joblib.Parallel(2)(joblib.delayed(square)(each) for each in arrays)])
    unordered = joblib.Parallel(2, return_as="generator_unordered")
    print(sorted(unordered(joblib.delayed(abs)(-i) for i in range(5))))
    try:
        joblib.Parallel(2)(joblib.delayed(refuse)(i) for i in range(3))
    except LookupError as error:
        print("LookupError", type(error.__cause__).__name__)
"""

# What loky's children import: cloudpickle would send the functions of a main module with all that they use.
PARTS = """
import os, signal, time

def begin(*parts):
    globals().update(zip(("lock", "queue", "connection"), parts))

def work(i):
    with lock:
        queue.put(i)
    if i == 0:
        connection.send(b"x" * 1000)
    return i

def answer(queue):
    with queue.get() as connection:
        connection.send(connection.recv() + b"!")

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def hold(lock, held):
    lock.acquire()
    held.set()
    time.sleep(100)
"""

LOKY = """
import multiprocessing, os
from joblib.externals import loky
import parts

if __name__ == "__main__":
    executor = loky.get_reusable_executor(2)
    print(list(executor.map(pow, range(5), range(5))))
    try:
        executor.submit(parts.die).result(60)
    except loky.process_executor.TerminatedWorkerError as error:
        print("TerminatedWorkerError", "SIGKILL" in str(error))
    executor = loky.get_reusable_executor(2)
    print(executor.submit(len, b"x" * 3_000_000).result(60))
    print(len(executor.submit(bytes, 3_000_000).result(60)))
    executor.shutdown()
    ours = multiprocessing.get_context("spawn")
    lock, queue, (receiver, sender) = ours.Lock(), ours.Queue(), ours.Pipe(False)
    for method in ("loky", "spawn"):
        context = loky.backend.get_context(method)
        begin = dict(initializer=parts.begin, initargs=(lock, queue, sender))
        with loky.ProcessPoolExecutor(2, context=context, **begin) as executor:
            print(sorted(executor.map(parts.work, range(20))))
            print(sorted(queue.get(timeout=60) for _ in range(20)), receiver.poll(60), len(receiver.recv()))
        process = context.Process(target=os._exit, args=(7,))
        process.start()
        process.join()
        print(process.exitcode)
"""

# The child joins the domain when it is sent something of it.
LATER = """
import multiprocessing
from joblib.externals.loky.backend import get_context
import parts

if __name__ == "__main__":
    context = get_context("loky")
    queue = context.SimpleQueue()
    child = context.Process(target=parts.answer, args=(queue,))
    child.start()
    mine, its = multiprocessing.Pipe()
    queue.put(its)
    mine.send(b"x" * 100_000)
    assert mine.poll(60)
    print(len(mine.recv()))
    child.join()
    print(child.exitcode)
"""

KILLED = """
import multiprocessing, os
from joblib.externals.loky.backend.process import LokyProcess
import parts

if __name__ == "__main__":
    ours = multiprocessing.get_context("spawn")
    lock, held = ours.Lock(), ours.Event()
    child = LokyProcess(target=parts.hold, args=(lock, held))
    child.start()
    assert held.wait(60)
    os.kill(child.pid, 9)
    child.join()
    assert lock.acquire(timeout=60) and lock.abandoned
    lock.release()
    import forklift
    assert forklift.stats()["processes"] == 1 and forklift.reap() == 0
"""


def run(program: str, how: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    arguments = ["-m", "forklift"] if how == "python -m forklift" else []
    script = cwd / "program.py"
    (cwd / "parts.py").write_text(PARTS)
    script.write_text(f"{BEGIN.get(how, '')}\n{program}")
    return subprocess.run(
        [sys.executable, "-W", "ignore", *arguments, str(script)],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=100,
    )


@pytest.mark.parametrize("how", ["python -m forklift", *[each for each in BEGIN if each != "plain"]])
@pytest.mark.parametrize("program", [JOBLIB, LOKY, LATER], ids=["joblib", "loky", "later"])
def test_equal_results(program: str, how: str, tmp_path: Path) -> None:
    control = run(program, "plain", tmp_path)
    assert (control.returncode, control.stderr) == (0, "")
    assert control.stdout
    done = run(program, how, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, control.stdout, "")


def test_a_killed_child_of_lokys_gives_back_what_it_held(tmp_path: Path) -> None:
    done = run(KILLED, "python -m forklift", tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

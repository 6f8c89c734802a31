"""Modules that the fork server imports beforehand, and that make locks, queues and values of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

MODULE = """
import forklift.multiprocessing as mp
context = mp.get_context("forkserver")
lock, queue, value = context.Lock(), context.Queue(), context.Value("i", 0)
"""
SCRIPT = """
import sys
import numpy as np
import forklift.multiprocessing as mp
import preloaded

context = mp.get_context("forkserver")

def add(answers, wait):
    for _ in range(100):
        with preloaded.lock:            # the server's, and so that of all its children
            preloaded.value.value += 1
    preloaded.queue.put(np.arange(5000) + preloaded.value.value)
    got = preloaded.queue.get(timeout=30)
    answers.put(got[1] - got[0])        # ours, of the other domain
    wait.wait(30)
    answers.put(preloaded.value.value)

def pass_on(answers):
    for method in ("spawn", "forkserver"):
        try:
            mp.get_context(method).Process(target=print, args=(preloaded.lock,)).start()
            answers.put("started")
        except Exception as error:
            answers.put(str(error))
    child = mp.get_context("fork").Process(target=hold, args=(preloaded.lock, answers))
    child.start()
    child.join()

def hold(lock, answers):
    with lock:
        answers.put("held")

if __name__ == "__main__":
    context.set_forkserver_preload(["preloaded"])
    answers, wait = context.Queue(), context.Event()
    children = [context.Process(target=add, args=(answers, wait)) for _ in range(3)]
    for child in children:
        child.start()
    print([int(answers.get(timeout=30)) for _ in children])
    wait.set()
    print([answers.get(timeout=30) for _ in children])
    for child in children:
        child.join()
    child = context.Process(target=pass_on, args=(answers,))
    child.start()
    for _ in range(3):
        print(answers.get(timeout=30))
    child.join()
    print([each.exitcode for each in [*children, child]], preloaded.value.value)
"""


def test_they_are_shared_by_the_servers_children(tmp_path: Path) -> None:
    (tmp_path / "preloaded.py").write_text(textwrap.dedent(MODULE))
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    # The server does not look where the script lies.
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=90, env=environment
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "[1, 1, 1]"
    assert lines[1] == "[300, 300, 300]"
    for line in lines[2:4]:
        assert "the fork server has preloaded" in line
    assert lines[4:] == ["held", "[0, 0, 0, 0] 0"]

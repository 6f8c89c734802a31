"""Programs that import `multiprocessing`, and functions that run them with and without Forklift."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

FORKLIFT = ("-m", "forklift")

# Uses each class in every way in which a program may import it, and prints the classes that it got.
PROGRAM = """
import json, multiprocessing, sys
import multiprocessing as mp
from multiprocessing import Pool, Queue, connection, queues
from concurrent.futures import ProcessPoolExecutor

class Numbered(queues.Queue):
    def __init__(self, number):
        super().__init__(ctx=mp.get_context())
        self.number = number

    def __getstate__(self):
        return (super().__getstate__(), self.number)

    def __setstate__(self, state):
        super().__setstate__(state[0])
        self.number = state[1]

def square(x):
    return x * x

def child(inbox, outbox, lock, pipe, value, numbered):
    with lock:
        value.value += 1
    seen = [queues.Queue.__module__, type(inbox).__module__, type(mp.Queue()).__module__]
    pipe.send(seen + [type(numbered).__mro__[1] is queues.Queue])
    numbered.put(numbered.number)
    while True:
        item = inbox.get()
        if item is None:
            return
        outbox.put(item * 2)

def main():
    mp.set_start_method(sys.argv[1])
    inbox, outbox, lock, value = Queue(), mp.SimpleQueue(), mp.Lock(), mp.Value("i", 1)
    mine, its = mp.Pipe()
    numbered = Numbered(7)
    process = mp.Process(target=child, args=(inbox, outbox, lock, its, value, numbered))
    process.start()
    for item in (21, "a", None):
        inbox.put(item)
    got = [outbox.get(), outbox.get(), numbered.get()]
    seen = mine.recv()
    process.join()
    with Pool(2) as pool:
        got.append(pool.map(square, range(5)))
        assert isinstance(pool.imap_unordered(square, [1]), multiprocessing.pool.IMapUnorderedIterator)
        assert isinstance(mp.get_context(), multiprocessing.context.BaseContext)
    with multiprocessing.pool.ThreadPool(2) as pool:
        got.append(pool.map(square, range(3)))
    with ProcessPoolExecutor(2) as executor:
        got.append(list(executor.map(square, range(4))))
    with mp.Manager() as manager:
        shared = manager.list([1])
        with manager.Pool(1) as pool:
            shared.append(pool.apply(square, (3,)))
        got.append(list(shared))
    print(json.dumps({"got": got, "exit": process.exitcode, "value": value.value, "seen": seen}))

if __name__ == "__main__":
    main()
"""

WHO_AM_I = """
import json, sys
main = sys.modules["__main__"]
print(json.dumps({
    "argv": sys.argv, "path": sys.path, "name": __name__, "globals": globals() is vars(main),
    "file": globals().get("__file__"), "spec": str(getattr(__spec__, "name", None)), "package": __package__,
    "same": sys.modules.get("__mp_main__", main) is main, "annotations": "forklift" in globals(),
}))
"""


def python(*arguments: Any, cwd: Path, **more: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=100, **more)


def answer(*arguments: Any, cwd: Path) -> Any:
    done = python(*arguments, cwd=cwd)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text))
    return path

"""A program whose ranks have ranks; it is killed by test_spawn.py. Prints their pids as JSON, then waits.

spawn_parents.py forklift|torch START_METHOD stubborn|"" [PATH]

PATH is of a named pipe: a rank writes to it when it has cleaned up.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import threading
from typing import Any

import spawn_targets as targets


def tell(queue: Any, path: str) -> None:
    if path:
        said = {"ranks": queue.get(), "nested": []}
    else:
        found = sorted(queue.get() for _ in range(2))
        said = {"ranks": [pid for _, pid, _ in found], "nested": [pid for *_, pids in found for pid in pids]}
    print(json.dumps(said), flush=True)


def main(library: str, method: str, stubborn: str, path: str = "") -> None:
    module = {"forklift": "forklift.multiprocessing", "torch": "torch.multiprocessing"}[library]
    mp = importlib.import_module(module)
    queue = mp.get_context(method).SimpleQueue()
    threading.Thread(target=tell, args=(queue, path), daemon=True).start()
    if path:
        args = (queue, mp.get_context(method).SimpleQueue(), path)
        mp.start_processes(targets.clean_up, args, 2, start_method=method)
    else:
        args = (module, method, queue, bool(stubborn))
        mp.start_processes(targets.nested, args, 2, start_method=method)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except KeyboardInterrupt:
        # Without a traceback, and with the status by which a shell knows of the signal.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)

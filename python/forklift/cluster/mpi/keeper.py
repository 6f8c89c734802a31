"""The process in which the states of a context's queues, locks and events are: a child of the driver.

It ends with the driver, however that ends. When it is lost, so are they: their methods raise
ConnectionError or EOFError.
"""

from __future__ import annotations

import functools
import os
import pickle
import signal
import subprocess
import sys
import threading
from multiprocessing import process
from typing import Any

from forklift.cluster.kept import ClusterManager
from forklift.cluster.mpi.hosting import without_launcher

__all__ = ["main", "start_manager"]


def start_manager(host: str) -> ClusterManager:
    """A manager whose server is in a new process, at this address of the machine."""
    authkey = bytes(process.current_process().authkey)
    paths = [path or os.getcwd() for path in sys.path]
    child = subprocess.Popen(
        [sys.executable, "-c", "from forklift.cluster.mpi.keeper import main; main()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**without_launcher(dict(os.environ)), "PYTHONPATH": os.pathsep.join(paths)},
    )
    assert child.stdin is not None
    assert child.stdout is not None
    with child.stdout:
        pickle.dump((host, authkey), child.stdin)
        child.stdin.flush()
        try:
            address = pickle.load(child.stdout)
        except EOFError:
            raise RuntimeError(f"the manager's process ended with status {child.wait()}") from None
    manager = ClusterManager(address=address, authkey=authkey)
    manager.connect()
    manager._end = functools.partial(_end, child)
    return manager


def _end(child: Any) -> None:
    child.kill()
    child.stdin.close()
    child.wait()


def main() -> None:
    """What the child does."""
    signal.signal(signal.SIGINT, lambda *_: None)  # what follows from it is the driver's business
    host, authkey = pickle.load(sys.stdin.buffer)
    process.current_process().authkey = authkey
    server: Any = ClusterManager(address=(host, 0), authkey=authkey).get_server()
    threading.Thread(target=_end_with_driver, name="KeeperLifeline", daemon=True).start()
    with os.fdopen(os.dup(1), "wb") as out:
        os.dup2(2, 1)
        pickle.dump(server.address, out)
    server.serve_forever()


def _end_with_driver() -> None:
    sys.stdin.buffer.read()
    os._exit(0)

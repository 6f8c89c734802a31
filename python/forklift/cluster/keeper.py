"""The keeper: the actor in which the states of a context's queues, locks and events are.

It is on the driver's node, and ends with the driver. When it is lost, so are they: their methods raise
ConnectionError or EOFError.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from multiprocessing import process
from typing import Any

import ray

from forklift.cluster import engine
from forklift.cluster.kept import ClusterManager

__all__ = ["Keeper", "start_manager"]


class Keeper:
    """What runs in the actor."""

    def begin(self, authkey: bytes, sys_path: list[str]) -> tuple[str, int]:
        """Start the server. Returns its address."""
        process.current_process().authkey = authkey
        sys.path += [path for path in sys_path if path not in sys.path and os.path.exists(path)]
        manager = ClusterManager(address=(ray.util.get_node_ip_address(), 0), authkey=authkey)
        server: Any = manager.get_server()
        threading.Thread(target=server.serve_forever, name="Keeper", daemon=True).start()
        address: tuple[str, int] = server.address
        return address


def start_manager() -> ClusterManager:
    """A manager whose server is in a new actor."""
    engine.connect()
    here = ray.get_runtime_context().get_node_id()
    actor = ray.remote(num_cpus=0)(Keeper).options(scheduling_strategy=engine.on_node(here)).remote()
    authkey = bytes(process.current_process().authkey)
    paths = [path or os.getcwd() for path in sys.path]
    address = ray.get(actor.begin.remote(authkey, paths))
    manager = ClusterManager(address=address, authkey=authkey)
    manager.connect()
    manager._end = functools.partial(ray.kill, actor)
    return manager

"""The agent of a node: hosts a NodePool for each pool of the driver, and carries out the driver's calls.

Calls of a pool run in three threads, as an actor's on Ray do: one that waits for results, or for room in
the workers' queue, does not hold up the others.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import queue
import sys
import threading
import types
from collections.abc import Callable
from multiprocessing import process
from typing import Any

import forklift.multiprocessing
from forklift import _core
from forklift.cluster.mpi.calls import answer
from forklift.cluster.node_pool import NodePool
from forklift.cluster.wire import Batch, Plan, Reply, Shared

__all__ = ["Host", "settle_in", "without_launcher"]

# What launchers and MPI libraries pass to a rank in its environment. A worker is no rank: with these, MPI in
# it would take itself for the rank that started it.
_OF_RANKS = (
    "OMPI_",
    "PMIX_",
    "PMI_",
    "PRTE_",
    "ORTE_",
    "MPI_LOCAL",
    "MPIEXEC_",
    "HYDRA_",
    "I_MPI_HYDRA_",
    "MV2_COMM_",
)


def without_launcher(environment: dict[str, str]) -> dict[str, str]:
    """An environment for processes that are no ranks: there mpi4py.MPI does not initialise MPI."""
    kept = {name: value for name, value in environment.items() if not name.startswith(_OF_RANKS)}
    return {**kept, "MPI4PY_RC_INITIALIZE": "0"}


def settle_in() -> None:
    """Prepare an agent's process for children that run the program's functions."""
    # The children would import this process's main module otherwise.
    sys.modules["__main__"] = types.ModuleType("__main__")
    cleaned = without_launcher(dict(os.environ))
    for name in set(os.environ) - set(cleaned):
        del os.environ[name]
    os.environ.update(cleaned)
    for name in _names_in_c() - set(cleaned):
        os.unsetenv(name)


def _names_in_c() -> set[str]:
    """The names of the environment's variables, also of those that a library in C has set."""
    entries = ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.CDLL(None), "environ")
    found: set[str] = set()
    for number in itertools.count():
        entry = entries[number]
        if entry is None:
            return found
        found.add(os.fsdecode(entry.partition(b"=")[0]))
    return found


class _Lane:
    """A thread that runs calls one after the other."""

    def __init__(self, name: str) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            call()

    def put(self, call: Callable[[], None] | None) -> None:
        self._calls.put(call)


class _Hosted:
    """A pool of the driver on this node. The methods are those of forklift.cluster.agent.Agent."""

    def __init__(self) -> None:
        control = _Lane("MPIAgentControl")
        self._lanes = {"submit": _Lane("MPIAgentSubmit"), "collect": _Lane("MPIAgentCollect")}
        self._lanes.update(dict.fromkeys(("begin", "give_back", "end"), control))
        self._lock = threading.Lock()
        self._pool: NodePool | None = None
        self._is_over = False

    def lane(self, method: str) -> _Lane:
        return self._lanes[method]

    def _running(self) -> NodePool:
        if self._pool is None:
            raise RuntimeError("the pool has no workers")
        return self._pool

    def begin(self, plan: Plan, version: str) -> int:
        if version != _core.__version__:
            raise RuntimeError(
                f"this node has forklift-mp {_core.__version__}, and the driver has {version}:"
                " install the same version on all nodes"
            )
        process.current_process().authkey = plan.authkey
        sys.path += [path for path in plan.sys_path if path not in sys.path and os.path.exists(path)]
        with self._lock:
            if not self._is_over:
                self._pool = NodePool(plan, forklift.multiprocessing.get_context("forkserver"))
        return os.getpid()

    def submit(self, batches: list[Batch], shared: list[Shared], forgotten: list[int]) -> None:
        self._running().submit(batches, shared, forgotten)

    def give_back(self, numbers: list[int]) -> None:
        self._running().give_back(numbers)

    def collect(self, acknowledged: int, seconds: float) -> Reply:
        return self._running().collect(acknowledged, seconds)

    def end(self) -> list[Any]:
        pool = self._running()
        pool.close()
        return pool.collect(sys.maxsize, 0).records

    def kill(self) -> None:
        """End the workers at once, if they run."""
        with self._lock:
            self._is_over = True
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.terminate()
        for lane in set(self._lanes.values()):
            lane.put(None)


class Host:
    """See the module. `post` sends the parts of a message to the driver, from any thread."""

    def __init__(self, post: Callable[[list[Any]], None]) -> None:
        self._post = post
        self._pools: dict[int, _Hosted] = {}
        self._ending: list[threading.Thread] = []

    def has_pools(self) -> bool:
        return bool(self._pools)

    def called(self, message: Any) -> None:
        """A call has come. Never waits; only one thread calls this."""
        pool, number, method, arguments = message
        if method == "kill":
            self._kill(pool)
            return
        if method == "begin":
            self._pools[pool] = _Hosted()
        hosted = self._pools.get(pool)
        if hosted is None:
            return  # it was ended meanwhile, and nobody waits for the answer

        def run() -> None:
            try:
                value, succeeded = getattr(hosted, method)(*arguments), True
            except Exception as error:
                value, succeeded = error, False
            if number:
                self._post(answer(number, succeeded, value))

        hosted.lane(method).put(run)

    def _kill(self, pool: int) -> None:
        hosted = self._pools.pop(pool, None)
        if hosted is not None:
            thread = threading.Thread(target=hosted.kill, name="MPIAgentEnd", daemon=True)
            thread.start()
            self._ending = [each for each in self._ending if each.is_alive()] + [thread]

    def close(self) -> None:
        """End all pools, and wait for it."""
        for pool in list(self._pools):
            self._kill(pool)
        for thread in self._ending:
            thread.join()

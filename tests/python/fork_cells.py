"""One row of the fork matrix, in an interpreter of its own: a runtime, a start method and four states.

    python fork_cells.py forklift|multiprocessing RUNTIME METHOD

prints one JSON object: for each state "result", or the name of what the start or the child ended with: a
class of errors, "hang" (no end within the deadline), "crash (signal N)" or "exit CODE". A runtime that is not
here prints
{"skipped": why}. The states:

    idle        the parent has computed; the child computes little
    large       the child computes enough for several threads
    in flight   another thread of the parent is within a long call; the child computes enough for several
    concurrent  another thread of the parent calls all the time; the child computes enough for several
"""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib
import json
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

STATES = ("idle", "large", "in flight", "concurrent")
SMALL, LARGE, LONG = range(3)
DEADLINE_S = 8.0
FRESH_DEADLINE_S = 30.0  # a fresh interpreter imports torch, on a loaded machine
CONTROL_DEADLINE_S = 2.5

Compute = Callable[[int], object]


def openblas() -> Compute:
    import numpy as np

    sides = {SMALL: 8, LARGE: 500, LONG: 2500}
    return lambda size: float(
        (np.ones((sides[size], sides[size])) @ np.ones((sides[size], sides[size])))[0, 0]
    )


def _openmp(*names: str) -> Compute:
    for name in names:
        try:
            library = ctypes.CDLL(name)
            break
        except OSError:
            continue
    else:
        raise ImportError(f"none of {', '.join(names)} is installed")
    c = ctypes.CDLL(None)
    # What a compiler makes of a parallel region: so many threads call the function.
    threads = {SMALL: 1, LARGE: 2, LONG: 2}

    def compute(size: int) -> object:
        library.GOMP_parallel(c.usleep, ctypes.c_void_p(500_000 if size == LONG else 1), threads[size], 0)
        return True

    return compute


def libgomp() -> Compute:
    return _openmp("libgomp.so.1")


def libomp() -> Compute:
    return _openmp("libomp.so.5", "libomp.so", "libiomp5.so")


def torch() -> Compute:
    import torch

    torch.set_num_threads(2)
    counts = {SMALL: 100, LARGE: 1_000_000, LONG: 40_000_000}
    return lambda size: float(torch.ones(counts[size]).exp().sum())


def jax() -> Compute:
    import jax
    import jax.numpy as jnp
    import numpy as np

    sides = {SMALL: 8, LARGE: 500, LONG: 2500}
    product = jax.jit(lambda x: jnp.sum(x @ x))
    return lambda size: float(product(np.ones((sides[size], sides[size]), np.float32)))


def pyarrow() -> Compute:
    import pyarrow as pa

    rows = {SMALL: 10, LARGE: 200_000, LONG: 3_000_000}

    def compute(size: int) -> object:
        keys = pa.chunked_array([pa.array(range(rows[size] // 4))] * 4)
        return (
            pa.table({"a": keys, "b": keys})
            .group_by("a", use_threads=True)
            .aggregate([("b", "sum")])
            .num_rows
        )

    return compute


def grpc() -> Compute:
    from concurrent import futures

    import grpc

    class Echo(grpc.GenericRpcHandler):
        def service(self, details: Any) -> Any:
            return grpc.unary_unary_rpc_method_handler(self._echo)

        @staticmethod
        def _echo(request: bytes, context: Any) -> bytes:
            time.sleep(0.5 if request == b"long" else 0)
            return request

    address = os.environ.get("FORK_CELLS_ADDRESS")
    if address is None:
        server = grpc.server(futures.ThreadPoolExecutor(4))
        server.add_generic_rpc_handlers((Echo(),))
        address = os.environ["FORK_CELLS_ADDRESS"] = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        server.start()
        grpc.own_server = server  # type: ignore[attr-defined]
    payload = {SMALL: b"x", LARGE: b"x" * 1_000_000, LONG: b"long"}

    def compute(size: int) -> object:
        # A channel of its own: a channel is not for the processes on both sides of a fork.
        with grpc.insecure_channel(address) as channel:
            return len(channel.unary_unary("/cells/echo")(payload[size], timeout=4))

    return compute


RUNTIMES: dict[str, Callable[[], Compute]] = {
    "OpenBLAS": openblas,
    "libgomp": libgomp,
    "libomp": libomp,
    "torch": torch,
    "JAX": jax,
    "pyarrow": pyarrow,
    "gRPC": grpc,
}
# Computes in a forked child; a fresh interpreter makes it anew.
_compute: Compute | None = None


def child(runtime: str, size: int) -> None:
    warnings.simplefilter("ignore")
    compute = _compute or RUNTIMES[runtime]()
    try:
        compute(size)
    except BaseException as error:
        print(f"{type(error).__name__}: {str(error)[:300]}", file=sys.stderr, flush=True)
        os._exit(3)  # an ordinary exit might hang in what the runtime does at exit
    os._exit(0)


def deadline_of(library: str, method: str) -> float:
    if method != "fork":
        return FRESH_DEADLINE_S
    return CONTROL_DEADLINE_S if library == "multiprocessing" else DEADLINE_S


def run_cell(library: str, context: Any, runtime: str, size: int) -> str:
    process = context.Process(target=child, args=(runtime, size))
    deadline = deadline_of(library, context.get_start_method())
    try:
        if library == "forklift":
            process.start(timeout=deadline / 2, fork_policy="error")
        else:
            process.start()
        process.join(deadline)
    except RuntimeError as error:
        return type(error).__name__
    if process.is_alive():
        process.kill()
        process.join()
        return "hang"
    code = process.exitcode
    if code is not None and code < 0:
        return f"crash (signal {-code})"
    return {0: "result", 3: "error in the child"}.get(code, f"exit {code}")


class Busy:
    """A thread that computes: one long call, or calls without an end."""

    def __init__(self, compute: Compute, size: int, again: bool) -> None:
        self._compute, self._size, self._again = compute, size, again
        self._stop = threading.Event()
        self._began = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._began.wait()

    def _run(self) -> None:
        self._began.set()
        self._compute(self._size)
        while self._again and not self._stop.is_set():
            self._compute(self._size)

    def end(self) -> None:
        self._stop.set()
        self._thread.join(DEADLINE_S)


def main(library: str, runtime: str, method: str) -> None:
    global _compute
    warnings.simplefilter("ignore")
    try:
        _compute = RUNTIMES[runtime]()
    except ImportError as error:
        print(json.dumps({"skipped": str(error)}))
        return
    context = importlib.import_module(
        "forklift.multiprocessing" if library == "forklift" else "multiprocessing"
    ).get_context(method)
    for size in (SMALL, LARGE):
        _compute(size)
    outcomes = {}
    # If the standard library's fork hangs in the parent, the watchdog tells what is known.
    limit = len(STATES) * deadline_of(library, method) + 4
    state = STATES[0]

    def give_up() -> None:
        time.sleep(limit)
        outcomes[state] = "hang of the parent"
        finish(outcomes)

    if library == "multiprocessing":
        threading.Thread(target=give_up, daemon=True).start()
    for state in STATES:
        busy = None
        if state in ("in flight", "concurrent"):
            busy = Busy(_compute, LONG if state == "in flight" else LARGE, state == "concurrent")
            time.sleep(0.05)  # into the call; the outcome must not depend on how far
        outcomes[state] = run_cell(library, context, runtime, SMALL if state == "idle" else LARGE)
        if busy is not None:
            busy.end()
        _compute(LARGE)  # the parent still works
    finish(outcomes)


def finish(outcomes: dict[str, str]) -> None:
    print(json.dumps(outcomes), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])

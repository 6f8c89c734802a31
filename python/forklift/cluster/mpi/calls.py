"""Calls of the driver to an agent, as messages: the caller's side and the host's.

A call is (pool, number, method, arguments), its answer (number, whether it succeeded, value or exception).
The pool's number tells apart the pools that the driver has on one node at the same time.
"""

from __future__ import annotations

import itertools
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from forklift.cluster.mpi.parcels import packed

__all__ = ["Caller", "Link", "answer"]

_pools = itertools.count(1)


class Caller:
    """The driver's side of the calls to one agent. `post` sends the parts of a message, from any thread."""

    def __init__(self, post: Callable[[list[Any]], None]) -> None:
        self._post = post
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._waiting: dict[int, tuple[int, Future[Any]]] = {}  # with the pool's number
        self._lost: BaseException | None = None

    def call(self, pool: int, method: str, *arguments: Any) -> Future[Any]:
        """Send a call. The future fails with ConnectionError if the agent is lost."""
        future: Future[Any] = Future()
        number = next(self._numbers)
        try:
            parts = packed((pool, number, method, arguments))
        except Exception as error:
            future.set_exception(error)
            return future
        with self._lock:
            lost = self._lost
            if lost is None:
                self._waiting[number] = (pool, future)
        if lost is not None:
            future.set_exception(lost)
        else:
            self._post(parts)
        return future

    def tell(self, pool: int, method: str, *arguments: Any) -> None:
        """Send a call that has no answer."""
        if self._lost is None:
            self._post(packed((pool, 0, method, arguments)))

    def answered(self, message: Any) -> None:
        """An answer has come."""
        number, succeeded, value = message
        with self._lock:
            _, future = self._waiting.pop(number, (0, None))
        if future is None:
            return  # of a pool that was ended meanwhile
        if succeeded:
            future.set_result(value)
        else:
            future.set_exception(value)

    def drop(self, pool: int) -> None:
        """No answer is awaited any more for a pool."""
        with self._lock:
            self._waiting = {number: each for number, each in self._waiting.items() if each[0] != pool}

    def close(self) -> None:
        """Send no more calls; no call is answered any more."""
        with self._lock:
            self._lost = ConnectionError("the program ends")
            self._waiting.clear()

    def lose(self, error: BaseException) -> None:
        """The agent is gone: all calls fail, these and later ones."""
        with self._lock:
            self._lost = error
            waiting, self._waiting = self._waiting, {}
        for _, future in waiting.values():
            future.set_exception(error)


class Link:
    """Calls for one pool; see forklift.cluster.transport.Link. `ended` is called when it is killed."""

    def __init__(self, caller: Caller, ended: Callable[[], object]) -> None:
        self._pool = next(_pools)
        self._caller = caller
        self._ended = ended

    def begin(self, plan: Any, version: str) -> Future[int]:
        return self._caller.call(self._pool, "begin", plan, version)

    def submit(self, batches: Any, shared: Any, forgotten: Any) -> Future[None]:
        return self._caller.call(self._pool, "submit", batches, shared, forgotten)

    def give_back(self, numbers: list[int]) -> None:
        self._caller.tell(self._pool, "give_back", numbers)

    def collect(self, acknowledged: int, seconds: float) -> Future[Any]:
        return self._caller.call(self._pool, "collect", acknowledged, seconds)

    def end(self) -> Future[list[Any]]:
        return self._caller.call(self._pool, "end")

    def kill(self) -> None:
        self._caller.drop(self._pool)
        self._caller.tell(self._pool, "kill")
        self._ended()


def answer(number: int, succeeded: bool, value: Any) -> list[Any]:
    """The parts of an answer. An exception that cannot be pickled is replaced by one with its text."""
    if not succeeded:
        try:
            pickle.loads(pickle.dumps(value))
        except Exception:
            value = RuntimeError(f"{type(value).__name__}: {value}")
    return packed((number, succeeded, value))

"""The workers that one call of ``Parallel`` leaves to the next: one executor, for some minutes."""

from __future__ import annotations

import os
import threading
from multiprocessing import util
from typing import Any

from forklift.multiprocessing._executor.executor import ProcessPoolExecutor

__all__ = ["IDLE_S", "give", "shutdown", "take"]

# loky's own time-out.
IDLE_S = 300.0


class _Kept:
    """At most one executor that nobody uses, and what it was made with."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._executor: ProcessPoolExecutor | None = None
        self._made_with: Any = None
        self._timer: threading.Timer | None = None
        self._ends_at_exit = False

    def take(self, made_with: Any) -> ProcessPoolExecutor | None:
        """The executor, if it was made with the same. The caller has it alone until `give`."""
        with self._lock:
            executor = self._executor
            if executor is None or not _equal(self._made_with, made_with):
                return None
            self._clear()
        if executor._broken:
            executor.shutdown(wait=False)
            return None
        return executor

    def give(self, executor: ProcessPoolExecutor, made_with: Any, seconds: float) -> None:
        """Keep an executor for so long, in place of the one that was kept."""
        if executor._broken or not seconds > 0:
            executor.shutdown()
            return
        with self._lock:
            if not self._ends_at_exit:
                # A process of multiprocessing joins its children at its end; it has forgotten its parent's
                # finalizers.
                self._ends_at_exit = True
                util.Finalize(None, self.shutdown, exitpriority=100)
            before = self._executor
            self._clear()
            self._executor, self._made_with = executor, made_with
            self._timer = threading.Timer(seconds, self._end, [executor])
            self._timer.daemon = True
            self._timer.start()
        if before is not None:
            before.shutdown(wait=False)

    def shutdown(self, wait: bool = True) -> None:
        with self._lock:
            executor = self._executor
            self._clear()
        if executor is not None:
            executor.shutdown(wait)

    def _end(self, executor: ProcessPoolExecutor) -> None:
        """In the timer's thread."""
        with self._lock:
            if executor is not self._executor:
                return
            self._clear()
        executor.shutdown()

    def _clear(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._executor = self._made_with = self._timer = None


def _equal(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except Exception:  # as of arrays
        return False


_kept = _Kept()


def take(made_with: Any) -> ProcessPoolExecutor | None:
    """The kept executor, if it was made with the same and works. The caller has it alone until `give`."""
    return _kept.take(made_with)


def give(executor: ProcessPoolExecutor, made_with: Any, seconds: float = IDLE_S) -> None:
    """Leave an executor to the next call that needs one like it within so many seconds; ends it if not."""
    _kept.give(executor, made_with, seconds)


def shutdown(wait: bool = True) -> None:
    """End the kept workers, if there are any; with ``wait``, return when they are gone."""
    _kept.shutdown(wait)


def _forget() -> None:
    """In a forked child: the workers, the lock and the timer are the parent's."""
    global _kept
    _kept = _Kept()


os.register_at_fork(after_in_child=_forget)

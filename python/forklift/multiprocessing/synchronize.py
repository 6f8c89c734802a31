"""Locks, semaphores, conditions, events and barriers: the standard library's, in shared memory.

There are no named semaphores and no descriptors: an object is a row of a table, freed with its last holder.

When a process dies (is killed, or ends without running its exit handlers) while it holds a ``Lock`` or
``RLock``, the next process that acquires the lock takes it over: ``acquire`` returns True, ``lock.abandoned``
is true until the release, and ``forklift.AbandonedLockWarning`` is emitted. In two similar cases the lock
stays held, as in the standard library: when the holder exits in good order, and when the ``Lock`` was ever
released by a process that did not hold it (it is then used as a signal). Semaphores have no owners; with
``recover=True`` the units that a dead process had taken come back.

Any number of threads and processes may use an object. Calls that wait release the interpreter lock and run
signal handlers; if a handler raises, the call has acquired nothing.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from multiprocessing import synchronize as _std

from forklift import _core
from forklift.multiprocessing._start.invitation import Invitation, invitation_to_share, is_for_forks_only

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["BoundedSemaphore", "Condition", "Event", "Lock", "RLock", "Semaphore"]

RECURSIVE_MUTEX, SEMAPHORE = range(2)
SEM_VALUE_MAX = 2**31 - 1


def _add_child_as_holder(shared: Any, offer: Callable[[int, int], None]) -> Invitation:
    """Enter the child that is being started as a holder of the object."""
    invitation = invitation_to_share(shared)
    offer(*invitation.slot)
    return invitation


class SemLock(_core.SemLockCore, _std.SemLock):
    """The base of locks and semaphores."""

    def __init__(self, kind: int, value: int, maxvalue: int, *, ctx: Any) -> None:
        if kind == RECURSIVE_MUTEX:
            self._make_lock(True)
        elif kind == SEMAPHORE:
            self._make_semaphore(value, maxvalue, False)
        else:
            raise ValueError("unrecognized kind")
        self._is_fork_ctx = is_for_forks_only(ctx)

    def __getstate__(self) -> Any:
        return (_add_child_as_holder(self, self._offer), self._id())

    def __setstate__(self, state: Any) -> None:
        _joined, identity = state
        self._open(*identity)


class Semaphore(_core.SemaphoreCore, SemLock, _std.Semaphore):
    """A counter: ``acquire`` decrements it, waiting while it is zero, and ``release`` increments it.

    With ``recover=True`` the units that a process has taken and not released when it dies are added again.
    This keeps a record for each process, so release units in the process that acquired them.
    """

    def __init__(self, value: int = 1, *, ctx: Any, recover: bool = False) -> None:
        self._make_semaphore(value, SEM_VALUE_MAX, recover)
        self._is_fork_ctx = is_for_forks_only(ctx)

    def get_value(self) -> int:
        """The number of units at this moment."""
        return self._get_value()


class BoundedSemaphore(Semaphore, _std.BoundedSemaphore):
    """A semaphore whose value never exceeds its initial value: ``release`` raises ValueError instead."""

    def __init__(self, value: int = 1, *, ctx: Any, recover: bool = False) -> None:
        self._make_semaphore(value, value, recover)
        self._is_fork_ctx = is_for_forks_only(ctx)


class Lock(_core.LockCore, SemLock, _std.Lock):
    """A lock that one thread of one process holds at a time. Any thread of any process may release it."""

    def __init__(self, *, ctx: Any) -> None:
        self._make_lock(False)
        self._is_fork_ctx = is_for_forks_only(ctx)


class RLock(_core.LockCore, SemLock, _std.RLock):
    """A lock that its holder may acquire again, and must release as many times."""

    def __init__(self, *, ctx: Any) -> None:
        self._make_lock(True)
        self._is_fork_ctx = is_for_forks_only(ctx)


class _Count:
    """Stands for a semaphore whose value other packages' tests of conditions read."""

    def __init__(self, value: Callable[[], int]) -> None:
        self._value = value

    @property
    def _semlock(self) -> _Count:
        return self

    def get_value(self) -> int:
        return self._value()

    _get_value = get_value


class Condition(_std.Condition):
    """Threads wait on a condition until another thread notifies them, the longest waiter first.

    A notification goes to a thread that waits at that time. If this thread's process dies before the thread
    has the lock again, the next waiter is notified in its place.
    """

    _lock: Any
    _is_fork_ctx = False

    def __init__(self, lock: Any = None, *, ctx: Any) -> None:
        self._lock = lock or ctx.RLock()
        self._core = _core.ConditionCore.make()
        self._is_fork_ctx = is_for_forks_only(ctx)
        self._make_methods()  # type: ignore[attr-defined]

    def __getstate__(self) -> Any:
        return (_add_child_as_holder(self, self._core.offer), self._lock, self._core.id())

    def __setstate__(self, state: Any) -> None:
        _joined, self._lock, identity = state
        self._core = _core.ConditionCore.open(*identity)
        self._make_methods()  # type: ignore[attr-defined]

    def wait(self, timeout: float | None = None) -> bool:
        """Release the lock, wait to be notified, acquire it again. False: ``timeout`` seconds have passed."""
        lock = self._lock
        assert lock._semlock._is_mine(), "must acquire() condition before using wait()"
        place = self._core.enrol()
        released = 0
        try:
            for _ in range(lock._semlock._count()):
                lock.release()
                released += 1
            return self._core.wait(place, timeout)
        finally:
            try:
                for _ in range(released):
                    lock.acquire()
            finally:
                self._core.leave(place)

    def notify(self, n: int = 1) -> None:
        """Wake at most ``n`` waiters."""
        assert self._lock._semlock._is_mine(), "lock is not owned"
        if n > 0:
            self._core.notify(min(n, sys.maxsize))

    def notify_all(self) -> None:
        """Wake all waiters."""
        self.notify(sys.maxsize)

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        """Wait until ``predicate()`` is true, for at most ``timeout`` seconds. Returns its last value."""
        result = predicate()
        end = None if timeout is None else time.monotonic() + timeout
        while not result:
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                break
            self.wait(left)
            result = predicate()
        return result

    # Private names of the standard library, for reading only.
    @property
    def _sleeping_count(self) -> _Count:
        return _Count(self._core.waiting)

    _woken_count = _wait_semaphore = _Count(lambda: 0)


class Event(_std.Event):
    """A flag that processes wait for. Setting it wakes all waiters, even if it is cleared at once."""

    _is_fork_ctx = False

    def __init__(self, *, ctx: Any) -> None:
        self._core = _core.EventCore.make()
        self._is_fork_ctx = is_for_forks_only(ctx)

    def __getstate__(self) -> Any:
        return (_add_child_as_holder(self, self._core.offer), self._core.id())

    def __setstate__(self, state: Any) -> None:
        _joined, identity = state
        self._core = _core.EventCore.open(*identity)

    def is_set(self) -> bool:
        """Tells whether the flag is set."""
        return self._core.is_set()

    def set(self) -> None:
        """Set the flag and wake all waiters."""
        self._core.set()

    def clear(self) -> None:
        """Clear the flag."""
        self._core.clear()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the flag is set, for at most ``timeout`` seconds. Returns whether it was set."""
        return self._core.wait(timeout)


class Barrier(_std.Barrier):
    """A barrier at which threads wait until ``parties`` of them have come; then all go on.

    It breaks (``threading.BrokenBarrierError``) by ``abort()``, by a time-out, by an exception of the action,
    and when a process that is inside ``wait`` dies.
    """

    _is_fork_ctx = False

    def __init__(
        self, parties: int, action: Callable[[], Any] | None = None, timeout: float | None = None, *, ctx: Any
    ) -> None:
        if parties < 1:
            raise ValueError("parties must be > 0")
        if parties != parties // 1 or parties > SEM_VALUE_MAX:
            raise ValueError(f"nobody would ever pass: parties must be a whole number, not {parties!r}")
        self._core = _core.BarrierCore.make(int(parties))
        self._is_fork_ctx = is_for_forks_only(ctx)
        self._parties, self._action, self._timeout = parties, action, timeout

    def __getstate__(self) -> Any:
        invitation = _add_child_as_holder(self, self._core.offer)
        return (invitation, self._parties, self._action, self._timeout, self._core.id())

    def __setstate__(self, state: Any) -> None:
        _joined, self._parties, self._action, self._timeout, identity = state
        self._core = _core.BarrierCore.open(*identity)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the others, at most ``timeout`` seconds (None: the barrier's own time-out).

        Returns the number of threads that came earlier, 0 to parties - 1. BrokenBarrierError if it breaks.
        """
        core = self._core
        arrival = core.arrive()
        if arrival is None:
            raise threading.BrokenBarrierError
        try:
            if arrival.last:
                passed = self._act(arrival)
            else:
                passed = core.wait(arrival, self._timeout if timeout is None else timeout)
            if not passed:
                raise threading.BrokenBarrierError
            return arrival.index
        finally:
            core.leave(arrival)

    def _act(self, arrival: _core.BarrierArrival) -> bool:
        try:
            if self._action:
                self._action()
        except BaseException:
            self._core.abort()
            raise
        return self._core.open_up(arrival)

    def reset(self) -> None:
        """Make the barrier empty and whole again. Waiting threads get BrokenBarrierError."""
        self._core.reset()

    def abort(self) -> None:
        """Break the barrier, for the threads that wait now and for those that come later."""
        self._core.abort()

    @property
    def n_waiting(self) -> int:
        """The number of threads that wait."""
        return self._core.waiting

    @property
    def broken(self) -> bool:
        """Tells whether the barrier is broken."""
        return self._core.broken


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        return getattr(_std, name)

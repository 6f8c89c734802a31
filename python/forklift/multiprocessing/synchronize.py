"""Locks, semaphores, conditions, events and barriers: the standard library's, in shared memory.

No named semaphores, no descriptors: an object is a row of a table and goes with its last holder.

When a process dies (is killed, or ends without running its exit handlers) while it holds a ``Lock`` or
``RLock``, the next process that acquires it takes it over: ``acquire`` returns True, ``lock.abandoned`` is
true until the release, and ``forklift.AbandonedLockWarning`` is emitted. Two cases that look alike stay as in
the standard library: a process that exits in good order while holding, and a ``Lock`` that was ever released
by a process that did not hold it (a signal). Semaphores have no owners; ``recover=True`` gives units back
that a dead process had taken.

Any number of threads and processes. Waits release the interpreter lock and run signal handlers; a handler
that raises leaves nothing taken.
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
    """Enter the child that is being started as a holder."""
    invitation = invitation_to_share(shared)
    offer(*invitation.slot)
    return invitation


class SemLock(_core.SemLockCore, _std.SemLock):
    """The base of locks and semaphores."""

    _is_fork_ctx = False

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
    """A counter that ``acquire`` takes from, waiting while it is zero, and ``release`` adds to.

    With ``recover=True`` the units that a process had taken and not given back when it died are added again.
    That takes a record for each process; release units where they were taken.
    """

    def __init__(self, value: int = 1, *, ctx: Any, recover: bool = False) -> None:
        self._make_semaphore(value, SEM_VALUE_MAX, recover)
        self._is_fork_ctx = is_for_forks_only(ctx)

    def get_value(self) -> int:
        """The units that are left just now."""
        return self._get_value()


class BoundedSemaphore(Semaphore, _std.BoundedSemaphore):
    """A semaphore whose value never exceeds the first one: ``release`` raises ValueError instead."""

    def __init__(self, value: int = 1, *, ctx: Any, recover: bool = False) -> None:
        self._make_semaphore(value, value, recover)
        self._is_fork_ctx = is_for_forks_only(ctx)


class Lock(_core.LockCore, SemLock, _std.Lock):
    """A lock that one thread of one process has at a time; any of them may release it."""

    def __init__(self, *, ctx: Any) -> None:
        self._make_lock(False)
        self._is_fork_ctx = is_for_forks_only(ctx)


class RLock(_core.LockCore, SemLock, _std.RLock):
    """A lock that its holder may acquire again, and must release as often."""

    def __init__(self, *, ctx: Any) -> None:
        self._make_lock(True)
        self._is_fork_ctx = is_for_forks_only(ctx)


class _Count:
    """A semaphore's value, which other packages' tests of conditions read."""

    def __init__(self, value: Callable[[], int]) -> None:
        self._value = value

    @property
    def _semlock(self) -> _Count:
        return self

    def get_value(self) -> int:
        return self._value()

    _get_value = get_value


class Condition(_std.Condition):
    """Threads wait on it until another one notifies them, the longest waiter first.

    A notification goes to a thread that waited when it was given. If its process dies before the thread has
    the lock again, the next waiter is notified in its place.
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
        """Give the lock up, wait to be notified, acquire it again. False: ``timeout`` seconds passed."""
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
        """Wait until ``predicate()`` is true; its last value."""
        result = predicate()
        end = None if timeout is None else time.monotonic() + timeout
        while not result:
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                break
            self.wait(left)
            result = predicate()
        return result

    # Private names of the standard library, to be looked at.
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
        """Wait until the flag is set, for at most ``timeout`` seconds. Whether it was."""
        return self._core.wait(timeout)


class Barrier(_std.Barrier):
    """Holds threads until ``parties`` of them have come; then all go on.

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
        """Wait for the others, at most ``timeout`` seconds (None: its own). The n-th to come gets n - 1."""
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
        """Begin again; waiting threads leave with BrokenBarrierError."""
        self._core.reset()

    def abort(self) -> None:
        """Break the barrier, for threads that wait now and later."""
        self._core.abort()

    @property
    def n_waiting(self) -> int:
        """How many threads wait."""
        return self._core.waiting

    @property
    def broken(self) -> bool:
        """Tells whether the barrier is broken."""
        return self._core.broken


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        return getattr(_std, name)

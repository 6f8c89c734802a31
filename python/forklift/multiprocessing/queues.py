"""Queues between processes: the standard library's, over shared memory.

``put`` encodes objects, natively or by pickle, in the calling thread; there is no feeder thread. When ``put``
returns, the object is in the queue for all processes, and it stays there even if the sender is killed.

Any number of threads and processes may use both ends. Calls that wait release the interpreter lock and run
signal handlers; if a handler raises, the call has taken no message and lost none.

A subclass that overrides a private hook of the standard library's queue, or uses its private parts (as loky's
do), gets the standard library's feeder thread and pipe: ``_standard`` is true for its class.
"""

from __future__ import annotations

import collections
import os
import threading
import types
from multiprocessing import queues as _std
from multiprocessing import util as _std_util
from operator import index as _index
from queue import Empty, Full

from forklift import _core
from forklift.generic import Bases
from forklift.multiprocessing._channels.ends import NoLock, Reader, SlotsLeft, Tasks, Writer
from forklift.multiprocessing._channels.standard import (
    PrivateName,
    add_child_as_holder,
    checked_framework,
    checked_redelivery,
    init_standard,
    or_standard,
)
from forklift.multiprocessing._channels.subclasses import relies_on_the_feeder, wishes
from forklift.multiprocessing._start.invitation import is_for_forks_only

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, overload

    from typing_extensions import TypeVar

    _T = TypeVar("_T", default=Any)

    class _QueueBases(_core.QueueCore[_T], _std.Queue[_T]): ...

    class _SimpleBases(_core.SimpleQueueCore[_T], _std.SimpleQueue[_T]): ...
else:
    _T = None
    _QueueBases = Bases(_core.QueueCore, _std.Queue)
    _SimpleBases = Bases(_core.SimpleQueueCore, _std.SimpleQueue)

__all__ = ["Empty", "Full", "JoinableQueue", "Queue", "SimpleQueue"]

# The capacity of a SimpleQueue, equal to that of a pipe.
_PIPE_BYTES = 64 * 1024
_SEM_VALUE_MAX = 2**31 - 1


# Saved, since forklift.install() replaces them.
_StdQueue: Any = _std.Queue
_StdJoinable: Any = _std.JoinableQueue
_StdSimple: Any = _std.SimpleQueue


class Queue(_QueueBases[_T]):
    """A queue of Python objects, bounded if ``maxsize`` is positive.

    NumPy arrays and buffers travel through shared memory and arrive as private, writable copies. A
    ``forklift.Tensor`` arrives as the same memory.

    An object that cannot be pickled is passed to ``_on_queue_feeder_error`` (which prints a traceback on
    stderr) and dropped, as in the standard library; with ``strict=True`` ``put`` raises instead. When the
    domain's memory budget is used up, ``put`` waits for memory, at most two seconds, and then raises
    ``forklift.OverBudgetError``.

    ``get(as_="torch")`` returns every array in the object as a tensor of torch; ``framework="torch"`` makes
    that the default of each ``get``. See ``forklift.adapters``.

    ``get(copy=False)`` lends bytes of more than 1 MiB: a read-only ``memoryview`` of the shared memory.
    """

    _FLAGS = 0
    _is_fork_ctx = False
    _standard = False

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        cls._standard = relies_on_the_feeder(cls, _StdJoinable)

    def __init__(
        self, maxsize: int = 0, *, ctx: Any = None, strict: bool = False, framework: str | None = None
    ) -> None:
        if self._standard:
            init_standard(_StdQueue, Queue, self, maxsize, ctx=ctx, strict=strict, framework=framework)
            return
        bound = _index(maxsize) if maxsize > 0 else 0
        if bound > _SEM_VALUE_MAX:
            raise OverflowError(f"maxsize is too large: {bound}")
        self._make(bound)
        self._strict = strict
        if framework is not None:
            self._framework = checked_framework(framework)
        self._is_fork_ctx = ctx is not None and is_for_forks_only(ctx)
        self._begin(bound)

    def _make(self, bound: int) -> None:
        self._create(bound, 0, self._FLAGS)

    def _begin(self, bound: int) -> None:
        self._maxsize = bound or _SEM_VALUE_MAX
        self._opid = os.getpid()
        self._reset()
        _std_util.register_after_fork(self, Queue._after_fork)

    @or_standard(_StdQueue)
    def __getstate__(self) -> Any:
        return (
            add_child_as_holder(self),
            self._id(),
            self._maxsize,
            self._strict,
            self._ignore_epipe,
            self._opid,
            self._framework,
        )

    @or_standard(_StdQueue)
    def __setstate__(self, state: Any) -> None:
        _joined, identity, self._maxsize, self._strict, ignore_epipe, self._opid, self._framework = state
        self._open(*identity)
        self._reset()
        self._ignore_epipe = ignore_epipe
        _std_util.register_after_fork(self, Queue._after_fork)

    @or_standard(_StdQueue)
    def _after_fork(self) -> None:
        self._reset(after_fork=True)

    @or_standard(_StdQueue)
    def _reset(self, after_fork: bool = False) -> None:
        self._ignore_epipe = False
        self._closed = False
        self._joincancelled = False

    async def aput(self, obj: _T, timeout: float | None = None) -> None:
        """As ``put``, in a coroutine. If it is cancelled while it waits for room, it has put nothing."""
        from forklift.multiprocessing._channels import coroutines  # imports asyncio

        await coroutines.put(self, lambda: self.put(obj, False), timeout)

    if TYPE_CHECKING:

        @overload
        async def aget(self, timeout: float | None = None) -> _T: ...
        @overload
        async def aget(
            self, timeout: float | None = None, *, as_: str | None = None, copy: bool = True
        ) -> Any: ...

    async def aget(self, timeout: float | None = None, *, as_: str | None = None, copy: bool = True) -> Any:
        """As ``get``, in a coroutine. If it is cancelled while it waits, it has taken nothing."""
        from forklift.multiprocessing._channels import coroutines

        return await coroutines.get(self, lambda: self.get(False, **wishes(as_, copy)), timeout)

    def put_nowait(self, obj: _T) -> None:
        """Put obj, or raise queue.Full at once."""
        self.put(obj, False)

    if TYPE_CHECKING:

        @overload
        def get_nowait(self) -> _T: ...
        @overload
        def get_nowait(self, *, as_: str | None = None, copy: bool = True) -> Any: ...

    def get_nowait(self, *, as_: str | None = None, copy: bool = True) -> Any:
        """Take the oldest object, or raise queue.Empty at once."""
        return self.get(False, **wishes(as_, copy))

    @or_standard(_StdQueue)
    def close(self) -> None:
        """End this process's puts and gets. Messages stay in the queue."""
        self._closed = True
        if self._used:
            # In the standard library the feeder thread, which the first put starts, closes the reader.
            self._reader_closed = True

    @or_standard(_StdQueue)
    def join_thread(self) -> None:
        """Return at once, since puts are complete when they return. Only after close()."""
        assert self._closed, f"Queue {self!r} not closed"

    @or_standard(_StdQueue)
    def cancel_join_thread(self) -> None:
        self._joincancelled = True

    @or_standard(_StdQueue)
    def _terminate_broken(self) -> None:
        self.close()

    def _pickling_failed(self, error: Exception, obj: Any) -> None:
        # The hook of the standard library prints the exception that is being handled.
        try:
            raise error
        except Exception as raised:
            self._on_queue_feeder_error(raised, obj)  # type: ignore[attr-defined]

    # Private names of the standard library that other packages use.
    _thread = None
    _jointhread = None
    _close = None

    _reader = PrivateName(Reader)

    _writer = PrivateName(Writer)

    _rlock = NoLock()
    _wlock = NoLock()

    _sem = PrivateName(SlotsLeft)

    _buffer = PrivateName(lambda self: collections.deque())

    _notempty = PrivateName(lambda self: threading.Condition())

    _poll = PrivateName(lambda self: self._reader.poll)

    if not TYPE_CHECKING:
        __class_getitem__ = classmethod(types.GenericAlias)


if TYPE_CHECKING:

    class _JoinableBases(Queue[_T], _std.JoinableQueue[_T]): ...
else:
    _JoinableBases = Bases(Queue, _std.JoinableQueue)


class JoinableQueue(_JoinableBases[_T]):
    """A queue that counts the objects put and those reported done; ``join`` waits until both are equal.

    With ``redeliver=True`` an object stays until it is done: ``task_done`` acknowledges the oldest one that
    the calling thread has got, and what a process had got and not acknowledged when it ended, killed or not,
    is got by another, before all others. So ``join`` waits until every object was done by some process, and
    an object may be worked on more than once. ``give_back`` returns the oldest one at once. An object that
    came back ``tries`` times (0: for ever) is put into the queue ``dead_letters``, or dropped and counted by
    ``dropped`` where there is none, when the next object is got. At most ``claims`` objects are out at once.
    One that cannot be unpickled goes back; ``get`` raises what unpickling raised.
    """

    _redelivery: tuple[int, int, Any] = (0, 0, None)

    def __init__(
        self,
        maxsize: int = 0,
        *,
        ctx: Any = None,
        strict: bool = False,
        framework: str | None = None,
        redeliver: bool = False,
        tries: int = 0,
        dead_letters: Queue[Any] | None = None,
        claims: int = 1024,
    ) -> None:
        if self._standard:
            ours = {"strict": strict, "framework": framework, "redeliver": redeliver}
            init_standard(_StdJoinable, Queue, self, maxsize, ctx=ctx, **ours)
            return
        self._redelivery = checked_redelivery(redeliver, tries, claims, dead_letters)
        Queue.__init__(self, maxsize, ctx=ctx, strict=strict, framework=framework)

    def _make(self, bound: int) -> None:
        self._create(bound, 0, self._FLAGS, *self._redelivery)
        self.__dict__.pop("_redelivery", None)  # the core keeps the dead letters alive

    @or_standard(_StdJoinable)
    def task_done(self) -> None:
        """Report that an object is done. ValueError if more are reported than were put.

        With ``redeliver=True``: acknowledge the oldest object that this thread has got. ValueError if it has
        got none that is not done.
        """
        if not self._task_done():
            raise ValueError("task_done() called too many times")

    def give_back(self) -> None:
        """Return the oldest object that this thread has got: it is the next one that a ``get`` takes.

        Only with ``redeliver=True``. ValueError if the thread has got none that is not done.
        """
        if not self._give_back():
            raise ValueError("give_back() called without an object that this thread has got")

    def unacknowledged(self) -> int:
        """How many objects were got and are not done, or came back. 0 without ``redeliver=True``."""
        return self._unacknowledged()

    def dropped(self) -> int:
        """How many objects came back too often and had no dead-letter queue to go to."""
        return self._dropped()

    @or_standard(_StdJoinable)
    def join(self) -> None:
        """Wait until every object that was put has been reported done."""
        self._join()

    _unfinished_tasks = PrivateName(Tasks)

    _cond = NoLock()

    @or_standard(_StdJoinable)
    def __getstate__(self) -> Any:
        return Queue.__getstate__(self)

    @or_standard(_StdJoinable)
    def __setstate__(self, state: Any) -> None:
        Queue.__setstate__(self, state)


class SimpleQueue(_SimpleBases[_T]):
    """A queue that holds 64 KB: ``put`` waits while it is full, as it would with a pipe."""

    _is_fork_ctx = False
    _standard = False

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        cls._standard = relies_on_the_feeder(cls, _StdSimple)

    def __init__(self, *, ctx: Any = None, framework: str | None = None) -> None:
        if self._standard:
            init_standard(_StdSimple, Queue, self, ctx=ctx, framework=framework)
            return
        self._create(0, _PIPE_BYTES, 0)
        if framework is not None:
            self._framework = checked_framework(framework)
        self._is_fork_ctx = ctx is not None and is_for_forks_only(ctx)

    async def aput(self, obj: _T, timeout: float | None = None) -> None:
        """As ``put``, in a coroutine. If it is cancelled while it waits for room, it has put nothing."""
        from forklift.multiprocessing._channels import coroutines  # imports asyncio

        await coroutines.put(self, lambda: self._put_now(obj), timeout)

    if TYPE_CHECKING:

        @overload
        async def aget(self, timeout: float | None = None) -> _T: ...
        @overload
        async def aget(
            self, timeout: float | None = None, *, as_: str | None = None, copy: bool = True
        ) -> Any: ...

    async def aget(self, timeout: float | None = None, *, as_: str | None = None, copy: bool = True) -> Any:
        """As ``get``, in a coroutine. If it is cancelled while it waits, it has taken nothing."""
        from forklift.multiprocessing._channels import coroutines

        return await coroutines.get(self, lambda: self._get_now(**wishes(as_, copy)), timeout)

    @or_standard(_StdSimple)
    def close(self) -> None:
        """End this process's puts and gets."""
        self._reader_closed = True
        self._writer_closed = True

    @or_standard(_StdSimple)
    def empty(self) -> bool:
        """Tells whether the queue is empty at this moment."""
        return not self._reader.poll()

    @or_standard(_StdSimple)
    def __getstate__(self) -> Any:
        return (add_child_as_holder(self), self._id(), self._framework)

    @or_standard(_StdSimple)
    def __setstate__(self, state: Any) -> None:
        _joined, identity, self._framework = state
        self._open(*identity)

    _reader = PrivateName(Reader)

    _writer = PrivateName(Writer)

    _rlock = NoLock()
    _wlock = NoLock()

    _poll = PrivateName(lambda self: self._reader.poll)

    if not TYPE_CHECKING:
        __class_getitem__ = classmethod(types.GenericAlias)


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        return getattr(_std, name)

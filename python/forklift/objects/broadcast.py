"""``Broadcast``: every subscription gets every message. ``Latest``: readers get the newest message only.

    frames = forklift.Broadcast(capacity=16, when_slow="drop_oldest")
    weights = forklift.Latest()

    def worker(frames, weights):
        with frames.subscribe() as frame_stream:
            for frame in frame_stream:              # every worker gets every frame, from now on
                policy = weights.peek()             # the newest one

    frames.put(frame)
    weights.put(policy)

A message has one copy in shared memory for all readers. ``forklift.Tensor``, torch's tensors, and what
``forklift.share`` and ``forklift.freeze`` return arrive as that memory. NumPy arrays and everything else
arrive as from a ``Queue``: private to each receiver, copied when they are received. A process that dies does
not disturb the others: a put takes effect completely or not at all, and a dead reader's subscription ends.

A Broadcast or Latest reaches children by fork, or as an argument of a process that is started. Any number of
threads and processes may put; each subscription belongs to the process that made it.
"""

from __future__ import annotations

from multiprocessing import context as _std_context
from operator import index as _index
from queue import Empty, Full
from types import TracebackType
from typing import Any

from forklift import _core
from forklift.errors import FinishedError
from forklift.multiprocessing._start.invitation import Invitation, invitation_for

__all__ = ["Broadcast", "Empty", "Full", "Latest", "Subscription"]

# In the order of WhenSlow in src/topic/tables.h.
_WHEN_SLOW = ("drop_oldest", "wait", "disconnect")
_SLOT_BYTES = 2048
# Enough slots that a put never waits for a reader that copies an older value.
_LATEST_SLOTS = 4


def _count(name: str, value: int, least: int) -> int:
    number = _index(value)
    if not least <= number < 2**31:
        raise ValueError(f"{name} must be at least {least} and less than 2**31, not {number}")
    return number


class _Shared(_core.TopicCore):
    """The base of Broadcast and Latest: how they reach other processes."""

    def __getstate__(self) -> Any:
        _std_context.assert_spawning(self)
        invitation: Invitation = invitation_for(_std_context.get_spawning_popen())
        self._offer(*invitation.slot)
        return (invitation, self._id())

    def __setstate__(self, state: Any) -> None:
        _joined, identity = state
        self._open(*identity)

    def close(self) -> None:
        """Close this process's handle. Using it afterwards is a ValueError; other handles stay open."""
        self._close()


class Broadcast(_Shared):
    """A stream of objects. Every subscription gets all of them, in the same order.

    ``when_slow`` says what happens when a subscription is ``capacity`` messages behind. ``"drop_oldest"``: it
    misses the oldest messages, and ``missed`` counts them. ``"wait"``: ``put`` waits for it.
    ``"disconnect"``: its ``get`` raises ``DisconnectedError`` from then on. A message is freed when all
    subscriptions have read it, except that the ``keep`` newest stay for ``subscribe(oldest=True)``.
    """

    def __init__(self, capacity: int = 64, *, when_slow: str = "drop_oldest", keep: int = 0) -> None:
        if when_slow not in _WHEN_SLOW:
            raise ValueError(f"when_slow must be one of {', '.join(_WHEN_SLOW)}, not {when_slow!r}")
        self._create(
            _count("capacity", capacity, 1), _SLOT_BYTES, _count("keep", keep, 0), _WHEN_SLOW.index(when_slow)
        )

    def put(self, obj: Any, timeout: float | None = None) -> None:
        """Put obj for all subscriptions.

        Only with ``when_slow="wait"`` may this wait, for at most timeout seconds (None: without end); then it
        raises queue.Full. ValueError after ``finish()``.
        """
        self._put(obj, timeout)

    def subscribe(self, *, oldest: bool = False) -> Subscription:
        """Make a subscription to what is put from now on; ``oldest``: from the oldest message still there.

        NoSpaceError when there are 128 subscriptions already.
        """
        subscription = Subscription()
        subscription._subscribe(self, oldest)
        return subscription

    def wait_for_readers(self, count: int, timeout: float | None = None) -> bool:
        """Wait until all processes together have at least count subscriptions. False: the time is over."""
        return self._wait_readers(_count("count", count, 0), timeout)

    def finish(self) -> None:
        """Allow no more puts, in any process: subscriptions end once they have read all messages."""
        self._finish()

    @property
    def finished(self) -> bool:
        return self._finished

    @property
    def readers(self) -> int:
        """The number of subscriptions in all processes at this moment."""
        return self._readers


class Subscription(_core.ReaderCore):
    """One reader's place in a Broadcast; an iterator over what is put, and a context manager.

    Its calls may come from several threads of the process that made it; in a forked child they raise
    ``RefusedError``.
    """

    def get(self, timeout: float | None = None, *, as_: str | None = None) -> Any:
        """The next object, waiting for at most timeout seconds (None: without end); then queue.Empty.

        FinishedError after the last object, DisconnectedError if this subscription was too slow, ValueError
        after ``unsubscribe()``. ``as_`` as in ``Queue.get``.
        """
        return self._get(timeout, as_)

    @property
    def missed(self) -> int:
        """The number of messages that were dropped before this subscription read them."""
        return self._missed

    @property
    def behind(self) -> int:
        """The number of messages that this subscription has not read yet."""
        return self._behind

    def unsubscribe(self) -> None:
        """End the subscription. It also ends when the object is dropped, or its process ends."""
        self._leave()

    def __iter__(self) -> Subscription:
        return self

    def __next__(self) -> Any:
        try:
            return self._get()
        except FinishedError:
            raise StopIteration from None

    def __enter__(self) -> Subscription:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._leave()

    def __reduce__(self) -> Any:
        raise TypeError("a subscription belongs to the process that made it: send the Broadcast")


class Latest(_Shared):
    """Holds the newest of the objects that were put. Receivers keep the older objects that they still use.

    ``put`` never waits. Each handle (this object in one process) remembers which version its ``get`` returned
    last; the handle of a new child has seen none, whether the child was forked or spawned.
    """

    def __init__(self) -> None:
        self._create(_LATEST_SLOTS, _SLOT_BYTES, 1, 0)

    _reader: _core.ReaderCore | None = None

    def _own_reader(self) -> _core.ReaderCore:
        reader = self._reader
        if reader is None or not reader._mine:
            reader = _core.ReaderCore()
            reader._follow(self)
            self._reader = reader
        return reader

    def put(self, obj: Any) -> None:
        """Make obj the newest object."""
        self._put(obj)

    def get(self, timeout: float | None = None, *, as_: str | None = None) -> Any:
        """The newest object, once it is newer than the one that this handle got last.

        Waits for at most timeout seconds (None: without end); then queue.Empty.
        """
        return self._own_reader()._get(timeout, as_)

    def peek(self, *, as_: str | None = None) -> Any:
        """The newest object, even if this handle got it already. queue.Empty if nothing was put yet."""
        return self._own_reader()._peek(as_)

    @property
    def version(self) -> int:
        """The number of objects that were put so far, in all processes."""
        return self._number

    @property
    def seen(self) -> int:
        """The version that ``get`` of this handle returned last; 0: none."""
        return self._own_reader()._seen

    def close(self) -> None:
        self._reader = None
        super().close()

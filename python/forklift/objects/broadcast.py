"""``Broadcast``: messages that all subscriptions get. ``Latest``: the newest message only.

    frames = forklift.Broadcast(capacity=16, when_slow="drop_oldest")
    weights = forklift.Latest()

    def worker(frames, weights):
        with frames.subscribe() as frame_stream:
            for frame in frame_stream:              # every worker gets every frame, from now on
                policy = weights.peek()             # the newest there is

    frames.put(frame)
    weights.put(policy)

There is one copy of a message in shared memory for all readers. ``forklift.Tensor``, ``forklift.share``,
``forklift.freeze`` and torch's tensors arrive as that memory; NumPy arrays and everything else arrive as on a
``Queue``: private to each receiver, copied when they are received. No process's death disturbs the others: a
put takes effect completely or not at all, and a dead reader's subscription ends.

Objects reach children by fork, or as arguments of a process that is started. Any number of threads and
processes may put; each subscription belongs to the process that made it.
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

# In the order of channel/board_tables.h.
_WHEN_SLOW = ("drop_oldest", "wait", "disconnect")
_SLOT_BYTES = 2048
# Enough that writing the newest value never waits for a reader that copies an older one.
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
    """A stream of objects, each of which every subscription gets, in one order.

    ``when_slow`` says what happens when a subscription is ``capacity`` messages behind: ``"drop_oldest"``, it
    misses the oldest and ``missed`` counts them; ``"wait"``, ``put`` waits for it; ``"disconnect"``, its
    ``get`` raises ``DisconnectedError`` from then on. A message goes when all subscriptions have read it, but
    for the ``keep`` newest ones, which wait for ``subscribe(oldest=True)``.
    """

    def __init__(self, capacity: int = 64, *, when_slow: str = "drop_oldest", keep: int = 0) -> None:
        if when_slow not in _WHEN_SLOW:
            raise ValueError(f"when_slow must be one of {', '.join(_WHEN_SLOW)}, not {when_slow!r}")
        self._create(
            _count("capacity", capacity, 1), _SLOT_BYTES, _count("keep", keep, 0), _WHEN_SLOW.index(when_slow)
        )

    def put(self, obj: Any, timeout: float | None = None) -> None:
        """Put obj for all subscriptions.

        Only with ``when_slow="wait"`` this may wait, for at most timeout seconds (None: without end), and
        raise queue.Full then. ValueError after ``finish()``.
        """
        self._put(obj, timeout)

    def subscribe(self, *, oldest: bool = False) -> Subscription:
        """Read what is put from now on, or from the oldest message that is still there.

        NoSpaceError when there are 128 subscriptions.
        """
        subscription = Subscription()
        subscription._subscribe(self, oldest)
        return subscription

    def wait_for_readers(self, count: int, timeout: float | None = None) -> bool:
        """Wait until there are at least count subscriptions, in all processes. False: not in time."""
        return self._wait_readers(_count("count", count, 0), timeout)

    def finish(self) -> None:
        """Allow no more puts, in any process: subscriptions end once they have read all messages."""
        self._finish()

    @property
    def finished(self) -> bool:
        return self._finished

    @property
    def readers(self) -> int:
        """The number of subscriptions in all processes just now."""
        return self._readers


class Subscription(_core.ReaderCore):
    """One reader's place in a Broadcast; an iterator over what is put, and a context manager.

    Its calls may come from several threads of the process that made it; in a forked child they raise
    ``RefusedError``.
    """

    def get(self, timeout: float | None = None, *, as_: str | None = None) -> Any:
        """The next object; queue.Empty when there is none for timeout seconds (None: without end).

        FinishedError behind the last one, DisconnectedError after having been too slow, ValueError after
        ``unsubscribe()``. ``as_`` as in ``Queue.get``.
        """
        return self._get(timeout, as_)

    @property
    def missed(self) -> int:
        """The number of messages that were dropped before this subscription had read them."""
        return self._missed

    @property
    def behind(self) -> int:
        """The number of messages that it has not read yet."""
        return self._behind

    def unsubscribe(self) -> None:
        """End the subscription. Also done when the object is dropped, or its process ends."""
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
    """The newest of the objects that were put. Receivers keep older ones that they still hold.

    ``put`` never waits. Each handle remembers which version it got last; one that has just come to a child,
    in whatever way, has seen none.
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
        """Make obj the newest."""
        self._put(obj)

    def get(self, timeout: float | None = None, *, as_: str | None = None) -> Any:
        """The newest object, when it is newer than what this handle got last; waits for one otherwise.

        queue.Empty when there is none for timeout seconds (None: without end).
        """
        return self._own_reader()._get(timeout, as_)

    def peek(self, *, as_: str | None = None) -> Any:
        """The newest object, seen or not; queue.Empty when nothing was put yet."""
        return self._own_reader()._peek(as_)

    @property
    def version(self) -> int:
        """The number of objects that were ever put."""
        return self._number

    @property
    def seen(self) -> int:
        """The version that ``get`` of this handle returned last; 0: none."""
        return self._own_reader()._seen

    def close(self) -> None:
        self._reader = None
        super().close()

"""Named domains and objects: programs that did not start each other share queues, locks and broadcasts.

    # a service                                   # a client: another program, in Python or C++
    domain = forklift.serve("camera")             domain = forklift.attach("camera")
    frames = forklift.PortableQueue(8)            frames = domain.open("frames")
    domain.publish("frames", frames)              show(frames.get())

Either program may start first, and start again after it was killed:

    domain = forklift.meet("camera")
    frames = domain.open_or_create("frames", lambda: forklift.PortableQueue(8))

A program that attached is a full member: it may end, or be killed, at any moment, and so may the server. The
domain lives as long as one member does. When the server is gone, another member serves the name.

A process belongs to one domain, so it must attach before it makes its first queue, lock, shared tensor or
child process. Names are the user's own, of ``$XDG_RUNTIME_DIR/forklift``, or ``forklift-<uid>`` in
the directory for temporary files, where nothing of them stays. In C++: ``forklift/domain.h``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from forklift import _core
from forklift.multiprocessing.queues import JoinableQueue, Queue, SimpleQueue
from forklift.objects.broadcast import Broadcast, Latest
from forklift.objects.portable import PortableQueue

__all__ = ["Domain", "attach", "meet", "own_domain", "serve"]

T = TypeVar("T")

_TIMEOUT = 5.0
# What is published: numbers of channel::Sort and locks::Kind.
_QUEUE, _JOINABLE, _SIMPLE = 1, 2, 3
_BROADCAST, _LATEST = 8, 9
_LOCK, _RLOCK, _SEMAPHORE, _RECOVERING, _CONDITION, _EVENT, _BARRIER = range(17, 24)
_PORTABLE = 1  # of a channel's flags


class Domain:
    """A domain under its name, or this process's own (``forklift.own_domain()``), which has none.

    A context manager: at its end this process no longer answers for the name, and nothing else changes. The
    process stays in the domain, and what it opened stays open.
    """

    def __init__(self, named: _core.NamedDomain | None) -> None:
        self._named = named

    @property
    def name(self) -> str:
        """The name under which others find it; empty for a process's own."""
        return self._named.name if self._named else ""

    @property
    def serving(self) -> bool:
        """Tells whether this process serves the name just now."""
        return self._named is not None and self._named.serving

    def close(self) -> None:
        """Stop serving the name, or standing by to serve it."""
        if self._named:
            self._named.close()

    def __enter__(self) -> Domain:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        how = "serving" if self.serving else "attached" if self._named else "own"
        return f"<forklift.Domain {self.name!r} {how}>"

    def publish(self, name: str, obj: Any) -> None:
        """Give an object a name in this domain. NameTakenError if the name is in use.

        It stays until ``unpublish``, whatever becomes of this process. Published can be: ``PortableQueue``
        (which C++ programs open, too), the queues of ``forklift.multiprocessing``, ``Broadcast`` and
        ``Latest`` for other Python programs, ``Lock``, ``RLock``, semaphores, ``Event``, ``Barrier`` (without
        its action) and ``Condition`` (without its lock).
        """
        _core.publish(name, *_identity(obj))

    def open(self, name: str, *, tensors: bool = False, lock: Any = None) -> Any:
        """What was published under the name. NotFoundError if nothing is.

        ``tensors``: a ``PortableQueue`` delivers ``forklift.Tensor`` and not arrays. ``lock``: the one of a
        condition.
        """
        sort, flags, index, generation, words = _core.find_published(name)
        if sort in (_QUEUE, _JOINABLE, _SIMPLE):
            return _open_queue(name, sort, flags, (index, generation), tensors)
        if sort in (_BROADCAST, _LATEST):
            return _open_topic(name, sort, flags, (index, generation))
        return _open_lock(name, sort, (index, generation), words, lock)

    def open_or_create(self, name: str, make: Callable[[], T]) -> T:
        """What is published under the name, or else ``make()``, which is published then.

        Several programs may do so at once: all get the same.
        """
        while True:
            try:
                found: T = self.open(name)
                return found
            except _errors().NotFoundError:
                made = make()
            try:
                self.publish(name, made)
                return made
            except _errors().NameTakenError:
                continue

    def unpublish(self, name: str) -> bool:
        """Remove the name; processes that have the object keep it. False: nothing was published under it."""
        return _core.unpublish(name)

    def published(self) -> dict[str, str]:
        """All names in this domain, with the kind of each object: ``{"frames": "queue"}``."""
        return dict(_core.published())


def serve(name: str, *, timeout: float = _TIMEOUT) -> Domain:
    """Give this process's domain a name, under which other programs of the same user can attach to it.

    A thread of the core answers them (it knows no Python). NameTakenError: the name is served already.
    StalledError: the process that could take the name over is stopped.
    """
    return Domain(_core.serve(name, timeout, True))


def attach(name: str, *, timeout: float = _TIMEOUT, stand_by: bool = True) -> Domain:
    """Join the domain that is served under the name, before this process has one of its own.

    ``stand_by``: answer for the name when its server is gone; a thread of the core waits for that.
    NotFoundError: no process serves the name. VersionError, RefusedError: its programs are of another
    version, another user or another pid namespace. StalledError: the server does not answer within
    ``timeout`` seconds. ValueError: this process has a domain of its own, or it is no possible name.
    """
    return Domain(_core.attach(name, timeout, stand_by))


def meet(name: str, *, timeout: float = _TIMEOUT, stand_by: bool = True) -> Domain:
    """Attach if the name is served, serve it if not. Errors are those of the two."""
    return Domain(_core.meet(name, timeout, stand_by))


def own_domain() -> Domain:
    """The domain of this process and its relatives, to publish and open what they share."""
    _core.ensure_domain()
    return Domain(None)


def _errors() -> Any:
    from forklift import errors

    return errors


def _identity(obj: Any) -> tuple[int, int, int, int]:
    """(kind of row, its number, its generation, what sort of object it is)"""
    if isinstance(obj, _core.QueueBase):
        if isinstance(obj, JoinableQueue):
            return (_core.KIND_CHANNEL, *obj._id(), _JOINABLE)
        return (_core.KIND_CHANNEL, *obj._id(), _SIMPLE if isinstance(obj, SimpleQueue) else _QUEUE)
    if isinstance(obj, _core.TopicCore):
        return (_core.KIND_TOPIC, *obj._id(), _LATEST if isinstance(obj, Latest) else _BROADCAST)
    if isinstance(obj, _core.SemLockCore):
        return (_core.KIND_LOCK, *obj._id()[:2], 0)
    core = getattr(obj, "_core", None)
    if isinstance(core, (_core.ConditionCore, _core.EventCore, _core.BarrierCore)):
        return (_core.KIND_LOCK, *core.id(), 0)
    raise TypeError(
        f"{type(obj).__qualname__!r} cannot be published: queues, locks, Broadcast and Latest of forklift can"
    )


def _open_queue(name: str, sort: int, flags: int, identity: tuple[int, int], tensors: bool) -> Any:
    queue: Any
    if flags == _PORTABLE:
        queue = PortableQueue.__new__(PortableQueue)
    elif flags != 0:
        raise TypeError(
            f"{name!r} is a queue of values of a C++ type, which only C++ programs can take: "
            "publish a forklift::Queue<forklift::Value> or Queue<Tensor>"
        )
    elif sort == _SIMPLE:
        queue = SimpleQueue.__new__(SimpleQueue)
    else:
        kind = JoinableQueue if sort == _JOINABLE else Queue
        queue = kind.__new__(kind)
    queue._open(*identity)
    if sort != _SIMPLE:
        queue._begin(queue._capacity())
    if flags == _PORTABLE:
        queue._arrive_as(tensors)
    return queue


def _open_topic(name: str, sort: int, flags: int, identity: tuple[int, int]) -> Any:
    kind = Latest if sort == _LATEST else Broadcast
    if flags != 0:
        raise TypeError(
            f"{name!r} is a {kind.__name__} of values of a C++ type, which only C++ programs can take: "
            "send them to Python through a forklift::Queue<forklift::Value>"
        )
    topic = kind.__new__(kind)
    topic._open(*identity)
    return topic


def _open_lock(name: str, sort: int, identity: tuple[int, int], words: str, lock: Any) -> Any:
    from forklift.multiprocessing import synchronize  # most programs open queues only

    made: Any
    if sort in (_LOCK, _RLOCK):
        kind = synchronize.Lock if sort == _LOCK else synchronize.RLock
        made = kind.__new__(kind)
        made._open(*identity, True)
    elif sort in (_SEMAPHORE, _RECOVERING):
        made = synchronize.Semaphore.__new__(synchronize.Semaphore)
        made._open(*identity, False)
        if made.maxvalue != synchronize.SEM_VALUE_MAX:
            made = synchronize.BoundedSemaphore.__new__(synchronize.BoundedSemaphore)
            made._open(*identity, False)
    elif sort == _EVENT:
        made = synchronize.Event.__new__(synchronize.Event)
        made._core = _core.EventCore.open(*identity)
    elif sort == _BARRIER:
        made = synchronize.Barrier.__new__(synchronize.Barrier)
        made._core = _core.BarrierCore.open(*identity)
        made._parties, made._action, made._timeout = made._core.parties, None, None
    elif sort == _CONDITION:
        if lock is None:
            raise TypeError(f"{name!r} is a condition: open(name, lock=...) needs its lock")
        made = synchronize.Condition.__new__(synchronize.Condition)
        made._lock = lock
        made._core = _core.ConditionCore.open(*identity)
        made._make_methods()
    else:
        raise TypeError(f"{name!r} is a {words}, which this version of Forklift cannot open in Python")
    return made

"""Named domains and objects: programs that did not start each other share queues, locks and broadcasts.

    # a service                                   # a client: another program, in Python or C++
    domain = forklift.serve("camera")             domain = forklift.attach("camera")
    frames = forklift.PortableQueue(8)            frames = domain.open("frames")
    domain.publish("frames", frames)              show(frames.get())

With ``meet`` either program may start first, and may start again after it was killed:

    domain = forklift.meet("camera")
    frames = domain.open_or_create("frames", lambda: forklift.PortableQueue(8))

A program that attached is a full member: it may end, or be killed, at any moment, and so may the server. The
domain lives as long as one member does. When the server is gone, another member serves the name.

A process belongs to one domain, so it must attach before it makes its first queue, lock, shared tensor or
child process. Each user has names of their own, below ``$XDG_RUNTIME_DIR/forklift``, or ``forklift-<uid>`` in
the directory for temporary files; no file stays there. In C++: ``forklift/domain.h``.
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
# Types of published objects: the numbers of node::ObjectType, for locks plus locks::Kind.
_QUEUE, _JOINABLE, _SIMPLE = 1, 2, 3
_BROADCAST, _LATEST = 8, 9
_TENSOR = 10
_CPP_MEMORY = range(11, 16)  # what C++ programs publish for each other
_LOCK, _RLOCK, _SEMAPHORE, _RECOVERING, _CONDITION, _EVENT, _BARRIER = range(17, 24)
_PORTABLE = 1  # of a channel's flags
_REDELIVERS = 2


class Domain:
    """A named domain, or this process's own domain without a name (``forklift.own_domain()``).

    A context manager: at its end this process stops serving the name, and nothing else changes. The process
    stays in the domain, and the objects that it opened stay open.
    """

    def __init__(self, named: _core.NamedDomain | None) -> None:
        self._named = named

    @property
    def name(self) -> str:
        """The name under which other programs find the domain; empty for ``own_domain()``."""
        return self._named.name if self._named else ""

    @property
    def serving(self) -> bool:
        """Tells whether this process serves the name at this moment."""
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

        The object stays published until ``unpublish``, even after this process has ended. These can be
        published: ``PortableQueue`` (which C++ programs open, too); for other Python programs the queues of
        ``forklift.multiprocessing``, ``Broadcast`` and ``Latest``; ``Lock``, ``RLock``, semaphores,
        ``Event``, ``Barrier`` (without its action) and ``Condition`` (without its lock); and
        ``forklift.Tensor``, which is the same memory for all programs that open it, C++ ones, too. A tensor
        outside of the arena, such as one over a NumPy array, is copied, and what has the name is the copy.
        TypeError for anything else.
        """
        if isinstance(obj, _core.Tensor):
            _core.publish_tensor(name, obj)
            return
        _core.publish(name, *_identity(obj))

    def open(self, name: str, *, tensors: bool = False, lock: Any = None) -> Any:
        """The object that is published under the name. NotFoundError if there is none.

        ``tensors``: a ``PortableQueue`` delivers ``forklift.Tensor`` instead of arrays. ``lock``: the lock of
        a condition, which is published without it.
        """
        object_type, flags, index, generation, words = _core.find_published(name)
        if object_type in (_QUEUE, _JOINABLE, _SIMPLE):
            return _open_queue(name, object_type, flags, (index, generation), tensors)
        if object_type in (_BROADCAST, _LATEST):
            return _open_topic(name, object_type, flags, (index, generation))
        if object_type == _TENSOR:
            return _core.open_published_tensor(name)
        if object_type in _CPP_MEMORY:
            raise TypeError(
                f"{name!r} is a {words} of C++ programs: let them publish its tensor(), or send it in a queue"
            )
        return _open_lock(name, object_type, (index, generation), words, lock)

    def open_or_create(self, name: str, make: Callable[[], T]) -> T:
        """The object that is published under the name; if there is none, publishes ``make()`` and returns it.

        Several programs may call this at the same time: all get the same object.
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

    A thread of the core, which runs no Python, answers them. NameTakenError: the name is served already.
    StalledError: the process that could take the name over is stopped.
    """
    return Domain(_core.serve(name, timeout, True))


def attach(name: str, *, timeout: float = _TIMEOUT, stand_by: bool = True) -> Domain:
    """Join the domain that is served under the name. This process must not have a domain of its own yet.

    ``stand_by``: serve the name when its server is gone; a thread of the core waits for that.
    NotFoundError: no process serves the name. VersionError: the domain is of another version of Forklift.
    RefusedError: it is of another user or another pid namespace. StalledError: the server does not answer
    within ``timeout`` seconds. ValueError: this process has a domain of its own, or the name is not valid.
    """
    return Domain(_core.attach(name, timeout, stand_by))


def meet(name: str, *, timeout: float = _TIMEOUT, stand_by: bool = True) -> Domain:
    """Attach to the name if it is served, and serve it if not. Raises what ``attach`` and ``serve`` raise."""
    return Domain(_core.meet(name, timeout, stand_by))


def own_domain() -> Domain:
    """The domain of this process and its process tree, in which they may publish and open objects."""
    _core.ensure_domain()
    return Domain(None)


def _errors() -> Any:
    from forklift import errors

    return errors


def _identity(obj: Any) -> tuple[int, int, int, int]:
    """(kind of table row, its index, its generation, the object's type)"""
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
        f"{type(obj).__qualname__!r} cannot be published: queues, locks, Broadcast, Latest and Tensor of "
        "forklift can"
    )


def _open_queue(name: str, object_type: int, flags: int, identity: tuple[int, int], tensors: bool) -> Any:
    queue: Any
    flags &= ~_REDELIVERS  # the core knows
    if flags == _PORTABLE:
        queue = PortableQueue.__new__(PortableQueue)
    elif flags != 0:
        raise TypeError(
            f"{name!r} is a queue of values of a C++ type, which only C++ programs can take: "
            "publish a forklift::Queue<forklift::Value> or Queue<Tensor>"
        )
    elif object_type == _SIMPLE:
        queue = SimpleQueue.__new__(SimpleQueue)
    else:
        kind = JoinableQueue if object_type == _JOINABLE else Queue
        queue = kind.__new__(kind)
    queue._open(*identity)
    if object_type != _SIMPLE:
        queue._begin(queue._capacity())
    if flags == _PORTABLE:
        queue._arrive_as(tensors)
    return queue


def _open_topic(name: str, object_type: int, flags: int, identity: tuple[int, int]) -> Any:
    kind = Latest if object_type == _LATEST else Broadcast
    if flags != 0:
        raise TypeError(
            f"{name!r} is a {kind.__name__} of values of a C++ type, which only C++ programs can take: "
            "send them to Python through a forklift::Queue<forklift::Value>"
        )
    topic = kind.__new__(kind)
    topic._open(*identity)
    return topic


def _open_lock(name: str, object_type: int, identity: tuple[int, int], words: str, lock: Any) -> Any:
    from forklift.multiprocessing import synchronize  # not at the top: most programs open queues only

    made: Any
    if object_type in (_LOCK, _RLOCK):
        kind = synchronize.Lock if object_type == _LOCK else synchronize.RLock
        made = kind.__new__(kind)
        made._open(*identity, True)
    elif object_type in (_SEMAPHORE, _RECOVERING):
        made = synchronize.Semaphore.__new__(synchronize.Semaphore)
        made._open(*identity, False)
        if made.maxvalue != synchronize.SEM_VALUE_MAX:
            made = synchronize.BoundedSemaphore.__new__(synchronize.BoundedSemaphore)
            made._open(*identity, False)
    elif object_type == _EVENT:
        made = synchronize.Event.__new__(synchronize.Event)
        made._core = _core.EventCore.open(*identity)
    elif object_type == _BARRIER:
        made = synchronize.Barrier.__new__(synchronize.Barrier)
        made._core = _core.BarrierCore.open(*identity)
        made._parties, made._action, made._timeout = made._core.parties, None, None
    elif object_type == _CONDITION:
        if lock is None:
            raise TypeError(f"{name!r} is a condition: open(name, lock=...) needs its lock")
        made = synchronize.Condition.__new__(synchronize.Condition)
        made._lock = lock
        made._core = _core.ConditionCore.open(*identity)
        made._make_methods()
    else:
        raise TypeError(f"{name!r} is a {words}, which this version of Forklift cannot open in Python")
    return made

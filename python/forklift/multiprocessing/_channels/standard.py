"""What the queue classes share: how they follow the standard library's, and checks of their arguments."""

from __future__ import annotations

import types
from collections.abc import Callable
from operator import index as _index

from forklift.multiprocessing._start.invitation import Invitation, invitation_to_share

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import TypeVar

    _Method = TypeVar("_Method", bound=Callable[..., Any])

__all__ = [
    "PrivateName",
    "add_child_as_holder",
    "checked_framework",
    "checked_redelivery",
    "init_standard",
    "or_standard",
]


def or_standard(standard: Any) -> Callable[[_Method], _Method]:
    """Make a method call `standard`'s for subclasses that rely on its engine, and Forklift's for all others.

    (Not super(): a standard class refers to its base by name, and install() may have replaced that name.)
    """

    def choose(ours: Any) -> Any:
        theirs = getattr(standard, ours.__name__, None)
        if theirs is None:  # only later versions of Python have it
            return ours

        def method(self: Any, *args: Any, **named: Any) -> Any:
            return (theirs if self._standard else ours)(self, *args, **named)

        method.__name__, method.__qualname__, method.__doc__ = ours.__name__, ours.__qualname__, ours.__doc__
        method.__wrapped__ = ours  # type: ignore[attr-defined]
        return method

    return choose


def init_standard(standard: Any, queue_type: type, queue: Any, *args: Any, ctx: Any, **ours: Any) -> None:
    """Call the standard library's constructor so that it makes the standard library's pipe.

    `queue_type`: the class that the constructor means by Queue.
    """
    for name, value in ours.items():
        if value:
            raise TypeError(
                f"{type(queue).__qualname__} relies on the standard library's queue, which has no {name}="
            )
    from forklift.multiprocessing.connection import standard_pipe

    init = standard.__init__
    pipes = types.SimpleNamespace(Pipe=standard_pipe)
    names = {**init.__globals__, "connection": pipes, "Queue": queue_type}
    types.FunctionType(init.__code__, names, "__init__", init.__defaults__)(queue, *args, ctx=ctx)


def checked_framework(framework: str) -> str | None:
    from forklift.adapters.frameworks import check

    return check(framework)


def add_child_as_holder(queue: Any) -> Invitation:
    """Enter the child that is being started as a holder of the queue."""
    invitation = invitation_to_share(queue)
    queue._offer(*invitation.slot)
    return invitation


def checked_redelivery(redeliver: bool, tries: int, claims: int, dead_letters: Any) -> tuple[int, int, Any]:
    """What the core takes: (claims, tries, dead letters); no claims where each object is delivered once."""
    if not redeliver:
        if tries != 0 or dead_letters is not None:
            raise ValueError("tries= and dead_letters= are for queues with redeliver=True")
        return 0, 0, None
    if not 0 <= _index(tries) < 4096:
        raise ValueError(f"tries={tries}: an object is delivered 1 to 4095 times, or for ever (0)")
    if not 0 < _index(claims) <= 1 << 20:
        raise ValueError(f"claims={claims}: between 1 and {1 << 20} objects are out at a time")
    return _index(claims), _index(tries), dead_letters


class PrivateName:
    """A private attribute of the standard library's, whose value is made at each access. It can be set."""

    def __init__(self, make: Callable[[Any], Any]) -> None:
        self._make = make

    def __get__(self, queue: Any, _owner: type | None = None) -> Any:
        return self if queue is None else self._make(queue)

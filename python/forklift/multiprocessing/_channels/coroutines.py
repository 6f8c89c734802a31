"""Waits in coroutines: ``await queue.aget()``, ``await connection.arecv()`` and the like.

    async def serve(requests, replies):
        while True:
            replies.put(handle(await requests.aget()))

The event loop watches a descriptor. Once this is ready, the coroutine takes (or puts) without waiting, and
waits again if another receiver was faster. So a coroutine that is cancelled while it waits has taken nothing,
and it cannot be cancelled between taking and returning.

Any number of coroutines may wait for an object, all in the same loop. The program must not use ``add_reader``
for the same object's descriptor in that loop, since a loop has one reader for a descriptor.
"""

from __future__ import annotations

import asyncio
import time
import weakref
from collections.abc import Callable
from queue import Empty, Full

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["get", "put", "receive", "send"]

# How often a sender that waits for room checks whether there still is a receiver.
_LOOK_SECONDS = 0.2

_waiting: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[int, list[asyncio.Future[None]]]] = (
    weakref.WeakKeyDictionary()
)


async def _readable(fd: int, timeout: float | None) -> None:
    """Return when the descriptor is readable or the time is over."""
    loop = asyncio.get_running_loop()
    watched = _waiting.setdefault(loop, {})
    futures = watched.setdefault(fd, [])
    if not futures:
        loop.add_reader(fd, _wake, futures)
    mine = loop.create_future()
    futures.append(mine)
    try:
        await asyncio.wait([mine], timeout=timeout)
    finally:
        futures.remove(mine)
        mine.cancel()
        if not futures:
            del watched[fd]
            loop.remove_reader(fd)


def _wake(futures: list[asyncio.Future[None]]) -> None:
    # Wake all: a coroutine that finds nothing waits again.
    for future in futures:
        if not future.done():
            future.set_result(None)


async def _until_done(
    attempt: Callable[[], Any], failure: type[Exception], fd: Callable[[], int], timeout: float | None
) -> Any:
    end = None if timeout is None else time.monotonic() + timeout
    while True:
        try:
            return attempt()
        except failure:
            left = None if end is None else end - time.monotonic()
            if left is not None and not left > 0:
                raise
        await _readable(fd(), left)


async def get(queue: Any, attempt: Callable[[], Any], timeout: float | None) -> Any:
    """Repeat `attempt` until it does not find the queue empty; its result. queue.Empty after the time."""
    return await _until_done(attempt, Empty, queue._fileno, timeout)


async def put(queue: Any, attempt: Callable[[], Any], timeout: float | None) -> None:
    """Repeat `attempt` until it does not find the queue full. queue.Full after the time."""
    taken = 0

    def noting() -> None:
        nonlocal taken
        taken = queue._taken()  # read it before the attempt: any message taken from here on makes room
        attempt()

    await _until_done(noting, Full, lambda: int(queue._room_fileno(taken)), timeout)


async def receive(connection: Any) -> Any:
    """Receive an object from a connection. EOFError at its end."""
    connection._check_closed()
    connection._check_readable()
    if connection._native:
        return await _until_done(connection._recv_now, TimeoutError, connection.fileno, None)
    while not connection._poll(0.0):
        await _readable(connection.fileno(), None)
    return connection.recv()


async def send(connection: Any, obj: Any) -> None:
    """Send an object through a connection. BrokenPipeError when there is no reader any more."""
    if not connection._native:
        connection.send(obj)
        return
    while True:
        taken = connection._taken()
        try:
            connection._send_now(obj)
            return
        except TimeoutError:
            await _readable(connection._room_fileno(taken), _LOOK_SECONDS)

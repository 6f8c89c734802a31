"""Sends the tasks that the workers cannot take at once, and those that the program's own iterator yields.

The calling thread submits tasks to the engine itself until the workers' queue is full. A feeder thread sends
the rest. If the program's own iterator yields the tasks, a feeder thread sends all of them.
"""

from __future__ import annotations

import collections
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from multiprocessing import pool as _std
from multiprocessing.context import TimeoutError

from forklift.errors import PoolStoppedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["AHEAD_UNSEEN", "Feeder", "Flow", "IMapIterator", "IMapUnorderedIterator"]

# How many tasks of an iteration are sent, and how many answers are taken, at a time.
_AT_ONCE = 256
# How many bytes of results may wait to be taken before an iteration pauses.
_MOST_WAITING = 256 << 20
# How many tasks of an iteration are sent before the size of a result is known.
AHEAD_UNSEEN = 64


class Feeder:
    """Sends tasks that the workers cannot take at once, in order, and knows when all have been sent."""

    def __init__(self, core: Any) -> None:
        self._core = core
        self._changed = threading.Condition()
        self._entries: collections.deque[Callable[[], None]] = collections.deque()
        self._active = 0
        self._running = False
        self._closing = False
        self._flows: weakref.WeakSet[Flow] = weakref.WeakSet()
        self.stopped = False

    @property
    def busy(self) -> bool:
        """Tells whether tasks wait to be sent; new tasks must then queue behind them."""
        return self._running

    def qsize(self) -> int:
        return len(self._entries)

    def empty(self) -> bool:
        return not self._entries

    def later(self, entry: Callable[[], None]) -> None:
        with self._changed:
            self._active += 1
            self._entries.append(entry)
            if self._running:
                return
            self._running = True
        threading.Thread(target=self._run, name="PoolFeeder", daemon=True).start()

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._entries:
                    self._running = False
                    return
                entry = self._entries.popleft()
            try:
                entry()
            finally:
                del entry
                self._end_one()

    def apart(self, entry: Callable[[], None], flow: Flow) -> None:
        """Run an entry in a thread of its own: it runs the program's code, or may wait for the consumer."""
        with self._changed:
            self._active += 1
            self._flows.add(flow)
        threading.Thread(target=self._run_apart, args=(entry,), name="PoolFeeder", daemon=True).start()

    def _run_apart(self, entry: Callable[[], None]) -> None:
        try:
            entry()
        finally:
            self._end_one()

    def _end_one(self) -> None:
        with self._changed:
            self._active -= 1
            close = self._active == 0 and self._closing and not self.stopped
            self._changed.notify_all()
        if close:
            self._core.close()

    def close(self) -> None:
        """Close the engine as soon as all tasks have been sent."""
        with self._changed:
            self._closing = True
            flows = list(self._flows)
            active = self._active != 0
        for flow in flows:
            flow.let_go()
        if not active:
            self._core.close()

    def wait(self) -> None:
        with self._changed:
            while self._active != 0 and not self.stopped:
                self._changed.wait()

    def stop(self) -> None:
        with self._changed:
            self.stopped = True
            flows = list(self._flows)
            self._changed.notify_all()
        for flow in flows:
            flow.stop()


class Flow:
    """The flow control of an iteration: counts the tasks sent and the results handed out."""

    def __init__(self, task: Any, chunksize: int, lookahead: int | None) -> None:
        self.task = task
        self.chunksize = chunksize
        self.lookahead = lookahead
        self.lock = threading.RLock()  # entered quicker than the condition, which is a class of Python's
        self.changed = threading.Condition(self.lock)
        self.awaited = False  # whether a consumer waits for a task to be sent
        self.sent = 0
        self.handed_out = 0
        self.length: int | None = None
        self.stopped = False
        self.bounded = lookahead is None  # True: the bytes of waiting results are bounded
        self.paused = False
        self._look_at = 0  # the number of sent tasks at which the bound in bytes is checked again

    def add(self, count: int) -> None:
        with self.lock:
            self.sent += count
            if self.awaited:
                self.changed.notify_all()

    def end(self) -> None:
        with self.changed:
            self.length = self.sent
            self.changed.notify_all()
        self.task.seal()

    def stop(self) -> None:
        with self.changed:
            self.stopped = True
            self.changed.notify_all()

    def let_go(self) -> None:
        """Lift the bound in bytes: send all tasks even if no result is taken, as in the standard library."""
        with self.changed:
            self.bounded = False
            self.changed.notify_all()

    def taken(self) -> None:
        """Called when the consumer has taken some results."""
        if self.bounded:
            with self.lock:
                if self.paused:
                    self.changed.notify_all()

    def wait_for_turn(self) -> bool:
        """Wait until one more task may be sent. False: the iteration was stopped."""
        if self.lookahead is None and not self.stopped and (not self.bounded or self.sent < self._look_at):
            return True
        while True:
            with self.changed:
                while not self.stopped and self._far_ahead():
                    self.changed.wait()
                if self.stopped:
                    return False
                if not self.bounded or self.sent < self._look_at:
                    return True
                ended, waiting, size = self.task.progress()
                if waiting > _MOST_WAITING:
                    self.paused = True
                    self.changed.wait()
                    self.paused = False
                    continue
            # Expect results in transit to be as large as those received so far.
            ahead = self.sent - ended
            room = (_MOST_WAITING - waiting) * ended // max(size, 1) if ended else AHEAD_UNSEEN
            room = max(room, 1)
            if ahead < room:
                self._look_at = self.sent + min(room - ahead, _AT_ONCE)
                return True
            self.task.wait_progress(ended)

    def _far_ahead(self) -> bool:
        return self.lookahead is not None and self.sent - self.handed_out >= self.lookahead

    def send_items(self, func: Any, items: Any, options: Any, start: int) -> None:
        """Send the rest of a list, waiting for room."""
        last = -(-len(items) // self.chunksize)
        try:
            while start < last and self.wait_for_turn():
                at_once = min(self._look_at - self.sent, _AT_ONCE) if self.bounded else _AT_ONCE
                upto = self.task.feed(func, items, False, self.chunksize, start, at_once, *options, True)
                self.add(upto - start)
                start = upto
        finally:
            self.end()

    def send_all(self, func: Any, iterable: Iterable[Any], options: Any) -> None:
        """Send what the program's own iterator, which may block, yields."""
        style = 2 if self.chunksize == 1 else 4  # kItem or kChunk of bindings/pool/task.h
        try:
            for argument in _chunks(iterable, self.chunksize):
                if not self.wait_for_turn():
                    break
                if argument is None:  # the core would take it for a missing argument
                    self.task.submit(func, (None,), 0, self.sent, *options, True)
                else:
                    self.task.submit(func, argument, style, self.sent, *options, True)
                self.add(1)
        except Exception as error:
            self.task.fail(self.sent, error)
            self.add(1)
        finally:
            self.end()


def _chunks(iterable: Iterable[Any], size: int) -> Iterator[Any]:
    if size == 1:
        yield from iterable
        return
    chunk = []
    for each in iterable:
        chunk.append(each)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


class IMapIterator(_std.IMapIterator):  # type: ignore[type-arg]
    """What ``imap`` returns."""

    _ordered = True

    def __init__(self, pool: Any, flow: Flow) -> None:
        self._pool = pool
        self._flow = flow
        self._lock = threading.Lock()
        self._items: collections.deque[Any] = collections.deque()
        self._came = 0
        self._index = 0
        self._unsorted: dict[int, Any] = {}

    def __del__(self) -> None:
        flow = getattr(self, "_flow", None)
        if flow is not None:
            # Nothing takes the results of the tasks that are not sent yet.
            if flow.lookahead is None:
                flow.let_go()
            else:
                flow.stop()

    @property
    def _length(self) -> int | None:
        """The number of results; None while it is not known. A private name of the standard library's."""
        return self._flow.length

    def __iter__(self) -> Any:
        return self

    def next(self, timeout: float | None = None) -> Any:
        """The next result. Waits for at most `timeout` seconds; then multiprocessing.TimeoutError."""
        until = None if timeout is None else time.monotonic() + timeout
        if not self._lock.acquire(timeout=-1 if timeout is None else max(timeout, 0)):
            raise self._flow.task.explained(TimeoutError())
        try:
            while not self._items:
                self._fetch(None if until is None else max(until - time.monotonic(), 0))
            ok, value = self._items.popleft()
        finally:
            self._lock.release()
        if ok:
            return value
        raise value

    __next__ = next

    def _fetch(self, timeout: float | None) -> None:
        flow = self._flow
        with flow.lock:
            if flow.length == self._came:
                self._pool = None
                raise StopIteration
            if flow.sent == self._came:
                if flow.stopped:
                    raise PoolStoppedError("the pool was terminated before all was sent")
                flow.awaited = True
                came = flow.changed.wait(timeout)
                flow.awaited = False
                if not came:
                    raise flow.task.explained(TimeoutError())
                return
        taken = flow.task.take(_AT_ONCE, timeout)
        if taken is None:
            time.sleep(0.001)  # another thread is receiving an answer at this moment
        elif not taken:
            raise flow.task.explained(TimeoutError())
        else:
            flow.taken()
            self._sort(taken)

    def _sort(self, taken: list[Any]) -> None:
        self._came += len(taken)
        if not self._ordered:
            for _, ok, value in taken:
                self._hand_out(ok, value)
            return
        for index, ok, value in taken:
            self._unsorted[index] = (ok, value)
        while self._index in self._unsorted:
            self._hand_out(*self._unsorted.pop(self._index))

    def _hand_out(self, ok: bool, value: Any) -> None:
        flow = self._flow
        self._index += 1
        if ok and flow.chunksize > 1:
            self._items.extend((True, each) for each in value)
        else:
            self._items.append((ok, value))
        if flow.lookahead is not None:
            with flow.lock:
                flow.handed_out += 1
                flow.changed.notify_all()


class IMapUnorderedIterator(IMapIterator, _std.IMapUnorderedIterator):  # type: ignore[type-arg]
    """What ``imap_unordered`` returns."""

    _ordered = False

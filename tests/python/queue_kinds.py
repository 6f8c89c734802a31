"""Queue classes of a program's own, derived from either library's, and functions that children run."""

from __future__ import annotations

import threading
from multiprocessing import queues as std
from multiprocessing import util
from multiprocessing.reduction import ForkingPickler
from typing import Any

import forklift.multiprocessing.queues as ours

DONE = "done"
# The attributes that a child needs; the last two are those of a JoinableQueue.
STATE = [
    "_maxsize",
    "_reader",
    "_writer",
    "_rlock",
    "_wlock",
    "_sem",
    "_opid",
    "_ignore_epipe",
    "_cond",
    "_unfinished_tasks",
]


def fed_by_itself(base: Any) -> Any:
    """As loky's queue: with its own state, feeder thread and reset."""

    class Fed(base):  # type: ignore[misc]
        resets = 0

        def __getstate__(self) -> Any:
            return {name: getattr(self, name) for name in STATE if hasattr(self, name)}

        def __setstate__(self, state: Any) -> None:
            vars(self).update(state)
            self._reset()

        def _reset(self, after_fork: bool = False) -> None:
            self.resets += 1
            super()._reset(after_fork)

        def _start_thread(self) -> None:
            self._buffer.clear()
            self._thread = threading.Thread(target=self._run, name="ItsFeeder", daemon=True)
            self._thread.start()
            self._jointhread = util.Finalize(self._thread, self._thread.join, exitpriority=-5)
            self._close = util.Finalize(
                self, base._finalize_close, [self._buffer, self._notempty], exitpriority=10
            )

        def _run(self) -> None:
            while True:
                with self._notempty:
                    while not self._buffer:
                        self._notempty.wait()
                    obj = self._buffer.popleft()
                if obj is std._sentinel:  # type: ignore[attr-defined]
                    self._writer.close()
                    return
                with self._wlock:
                    self._send_bytes(ForkingPickler.dumps(("fed", obj)))

    return Fed


def with_a_put_of_its_own(base: Any) -> Any:
    """The known recipe for putting at the front, which works on the buffer."""

    class Front(base):  # type: ignore[misc]
        def put(self, obj: Any, block: bool = True, timeout: float | None = None) -> None:
            assert not self._closed
            if not self._sem.acquire(block, timeout):
                raise std.Full
            with self._notempty:
                if self._thread is None:
                    self._start_thread()
                self._buffer.appendleft(obj)
                self._notempty.notify()

    return Front


def numbered(base: Any) -> Any:
    """With a state that contains the base class's; it uses no private attribute."""

    class Numbered(base):  # type: ignore[misc]
        number = 7

        def __getstate__(self) -> Any:
            return {"base": super().__getstate__(), "number": self.number}

        def __setstate__(self, state: Any) -> None:
            super().__setstate__(state["base"])
            self.number = state["number"]

        def get(self, block: bool = True, timeout: float | None = None) -> Any:
            return super().get(block, timeout)

        def _on_queue_feeder_error(self, e: Exception, obj: Any) -> None:
            self.failed = obj

    return Numbered


def bytes_only(base: Any) -> Any:
    """As loky's simple queue: the class itself decides which bytes go through its pipe."""

    class Bytes(base):  # type: ignore[misc]
        def __getstate__(self) -> Any:
            return (self._reader, self._writer, self._rlock, self._wlock)

        def __setstate__(self, state: Any) -> None:
            self._reader, self._writer, self._rlock, self._wlock = state
            self._poll = self._reader.poll

        def put(self, obj: Any) -> None:
            with self._wlock:
                self._writer.send_bytes(ForkingPickler.dumps(("bytes", obj)))

    return Bytes


StdFed, OurFed = fed_by_itself(std.Queue), fed_by_itself(ours.Queue)
StdFedJoinable, OurFedJoinable = fed_by_itself(std.JoinableQueue), fed_by_itself(ours.JoinableQueue)
StdFront, OurFront = with_a_put_of_its_own(std.Queue), with_a_put_of_its_own(ours.Queue)
StdNumbered, OurNumbered = numbered(std.Queue), numbered(ours.Queue)
StdBytes, OurBytes = bytes_only(std.SimpleQueue), bytes_only(ours.SimpleQueue)

for _name, _kind in list(globals().items()):  # children find them by their names
    if _name.startswith(("Std", "Our")):
        _kind.__qualname__ = _name


def forward(inbox: Any, outbox: Any) -> None:
    while True:
        item = inbox.get()
        outbox.put(item)
        if DONE in (item, item[-1]):
            return


def die_with_the_reader(queue: Any, ready: Any) -> None:
    import os
    import signal

    ready.set()
    queue.get()
    os.kill(os.getpid(), signal.SIGKILL)

"""The pool of one node: Forklift's own engine and workers, which take batches of tasks and report their ends.

Any thread may call the methods. Reports are kept until the driver acknowledges them, and a batch that comes
twice is taken once, so the driver's calls may be repeated after a broken connection.

The class knows nothing of how calls come: forklift.cluster.agent puts it into an actor of Ray's,
forklift.cluster.mpi.hosting into a rank of an MPI job.
"""

from __future__ import annotations

import collections
import threading
import time
from collections.abc import Callable
from typing import Any

from forklift import _core
from forklift.cluster import tasks
from forklift.cluster.gathering import Gathering
from forklift.cluster.packing import array_of, unpack
from forklift.cluster.records import Records
from forklift.cluster.wire import Batch, Plan, Reply, Report, Shared
from forklift.multiprocessing._pool.workers import Plan as LocalPlan
from forklift.multiprocessing._pool.workers import WorkerFactory
from forklift.objects.frozen import freeze

__all__ = ["NodePool"]

# A batch that is not through after so long reports the tasks that have ended, in seconds.
_PATIENCE = 0.05
# How often it is looked whether workers were replaced, in seconds.
_LOOK_SECONDS = 0.5
# How many bytes of results a reply has, apart from the last one of them.
_REPLY_BYTES = 32 << 20
_AT_ONCE = 4096
# With results of so many bytes a reply goes at once: copying them takes its time, too.
_GATHER_BYTES = 256 << 10


class _Open:
    """A batch whose tasks have not all been reported."""

    def __init__(self, batch: Batch, job: Any) -> None:
        self.number = batch.number
        self.job = job
        self.count = len(batch.arguments)
        self.reported = 0
        self.since = time.monotonic()


class NodePool:
    """See the module. ``close`` and ``terminate`` end the workers, and wait for it.

    ``fetch`` gets the content of a shared object for which a reference was sent (see wire.Shared).
    """

    def __init__(self, plan: Plan, context: Any, fetch: Callable[[Any], Any] | None = None) -> None:
        self._fetch = fetch
        self._workers = plan.workers
        self._processes: list[Any] = []
        self._changed = threading.Condition()
        self._open: dict[int, _Open] = {}
        self._seen: set[int] = set()  # batches
        self._objects: dict[int, Any] = {}
        self._reports: collections.deque[tuple[int, Report]] = collections.deque()
        self._records: list[Any] = []
        self._told_pids: list[int] = []
        self._reply: Reply | None = None  # not acknowledged yet
        self._number = 0
        self._tasks = 0  # that have not ended
        self._gathering = Gathering(plan.workers)
        self._urgent = False  # a report must not wait for others
        self._busy = 0.0  # worker seconds since the last reply
        self._looked = time.monotonic()
        self._ended = 0  # tasks since the last reply
        self._log = None if plan.log_level is None else Records(context, self._add_record)
        local = LocalPlan(
            tasks.begin,
            (_frozen(plan.initializer), plan.finalizer, plan.base, plan.authkey, plan.advice),
            tasks.finish if plan.finalizer is not None else None,
            plan.most_tasks,
            plan.most_memory,
            None,
            plan.nested,
            self._log and (self._log.queue, plan.log_level),
        )
        factory = WorkerFactory(_process_of, context, local, self._processes)
        self._core = _core.PoolCore(
            factory,
            plan.workers,
            int(plan.warm_spare),
            plan.most_tasks,
            plan.most_memory,
            failures="forklift.cluster.outcomes",
        )
        self._thread = threading.Thread(target=self._note_ends, name="NodePool", daemon=True)
        self._thread.start()

    # --- tasks

    def submit(self, batches: list[Batch], shared: list[Shared], forgotten: list[int]) -> None:
        """Take batches, after the objects that they share; drop objects that no later batch uses."""
        refused: dict[int, str] = {}  # objects that could not be made
        for each in shared:
            if each.number not in self._objects:
                try:
                    self._objects[each.number] = _object_of(each, self._fetch)
                except Exception as error:
                    refused[each.number] = repr(error)
        for batch in batches:
            if batch.number not in self._seen:
                self._seen.add(batch.number)
                try:
                    self._feed(batch)
                except Exception as error:
                    self._refuse(batch, "; ".join(refused.values()) or repr(error))
        for number in forgotten:
            self._objects.pop(number, None)

    def _refuse(self, batch: Batch, why: str) -> None:
        """Let all tasks of a batch fail that was not given to the workers."""
        count = len(batch.arguments)
        failures: dict[int, tuple[Any, ...]] = dict.fromkeys(range(count), ("unreadable", why))
        with self._changed:
            self._reports.append((0, Report(batch.number, None, [None] * count, failures)))
            self._urgent = True
            self._changed.notify_all()

    def give_back(self, numbers: list[int]) -> None:
        """Report the tasks of these batches as cancelled that no worker has begun."""
        with self._changed:
            found = [self._open[number] for number in numbers if number in self._open]
        for each in found:
            each.job.cancel_all()

    def _feed(self, batch: Batch) -> None:
        head = self._head_of(batch.function)
        style, arguments = batch.style, batch.arguments
        if batch.plain:
            run: Any = tasks.run_plain
            items: list[Any] = [(head, style, each) for each in arguments]
        else:
            run = tasks.run_packed
            buffers, shared = batch.buffers or {}, batch.shared or {}
            items = [
                (
                    head,
                    style,
                    data,
                    [array_of(buffer) for buffer in buffers.get(place, ())],
                    [self._objects[number] for number in shared.get(place, ())],
                )
                for place, data in enumerate(arguments)
            ]
        job = _core.PoolJob(self._core, None, batch.number, True, True)
        with self._changed:
            self._look()
            self._open[batch.number] = _Open(batch, job)
            self._tasks += len(items)
        job.feed(run, items, False, 1, 0, len(items), batch.seconds, 0, True)
        job.seal()
        job.watch()

    def _head_of(self, function: Any) -> Any:
        """The function as tasks.run_... take it."""
        if type(function) is tuple:
            return (None, function[0], (), function[1])
        fresh, (data, buffers) = self._objects[function]
        return (function, data, buffers, fresh)

    # --- answers

    def collect(self, acknowledged: int, seconds: float) -> Reply:
        """What has ended since the last reply; waits for it so long, and may come back with nothing.

        While the workers have enough to do, it waits a little longer for more.
        """
        until = time.monotonic() + seconds
        with self._changed:
            if self._reply is not None and self._reply.number > acknowledged:
                return self._reply
            self._reply = None
            while not (self._reports or self._records):
                left = until - time.monotonic()
                if left <= 0:
                    break
                if self._pids() != self._told_pids:
                    break
                several = any(each.count > 1 for each in self._open.values())
                if not self._changed.wait(min(left, _PATIENCE if several else _LOOK_SECONDS)):
                    self._report_late_ones()
            self._gather(until)
            return self._make_reply()

    def _gather(self, until: float) -> None:
        """Let more tasks end before the reply. Under the lock."""
        while self._reports and not self._urgent:
            now = time.monotonic()
            left = min(self._gathering.until(now, self._tasks), until) - now
            if left <= 0:
                return
            self._changed.wait(left)

    def _make_reply(self) -> Reply:
        reports, room = [], _REPLY_BYTES
        while self._reports and room > 0:
            size, report = self._reports.popleft()
            reports.append(report)
            room -= size
        self._look()
        seconds = self._busy / self._ended if self._ended else 0.0
        self._busy, self._ended = 0.0, 0
        self._gathering.replied(seconds)
        self._urgent = False
        records, self._records = self._records, []
        self._number += 1
        self._told_pids = self._pids()
        self._reply = Reply(self._number, reports, self._told_pids, seconds, records)
        return self._reply

    def _pids(self) -> list[int]:
        return [process.pid for process in list(self._processes)]

    def _look(self) -> None:
        """Add the time since the last look to the time for which workers were busy. Under the lock."""
        now = time.monotonic()
        self._busy += (now - self._looked) * min(self._tasks, self._workers)
        self._looked = now

    def _note_ends(self) -> None:
        while (number := self._core.next_ended()) is not None:
            with self._changed:
                self._report(self._open.pop(number), True)
                self._changed.notify_all()

    def _report_late_ones(self) -> None:
        before = time.monotonic() - _PATIENCE
        for each in list(self._open.values()):
            if each.count > 1 and each.since < before:
                self._report(each, False)

    def _report(self, batch: _Open, whole: bool) -> None:
        """Report the tasks that have ended. `whole`: the batch is through. Under the lock."""
        taken: list[Any] = []
        left = batch.count - batch.reported
        while len(taken) < left:
            some = batch.job.take(_AT_ONCE, 0)
            if some:
                taken += some
            elif not whole:
                break
        if not taken:
            return
        self._look()
        self._tasks -= len(taken)
        self._ended += len(taken)
        batch.reported += len(taken)
        in_order = len(taken) == batch.count
        if in_order:
            taken.sort(key=_place_of)
        values = [value for _, _, value in taken]
        failures = {place: value for place, ok, value in taken if not ok} or None
        places = None if in_order else [place for place, _, _ in taken]
        self._reports.append((_size_of(values), Report(batch.number, places, values, failures)))
        large = sum(size for size, _ in self._reports) >= _GATHER_BYTES
        self._urgent = self._urgent or failures is not None or large

    def _add_record(self, record: Any) -> None:
        with self._changed:
            self._records.append(record)
            self._changed.notify_all()

    # --- the end

    def close(self) -> None:
        """Let the workers exit when all tasks have ended, and run their finalizers."""
        self._core.close()
        self._core.join(None)
        self._stop()

    def terminate(self) -> None:
        """End the workers at once."""
        self._core.terminate()
        self._core.join(None)
        self._stop()

    def _stop(self) -> None:
        self._core.end_notices()
        self._thread.join()
        if self._log is not None:
            self._log.close()


def _process_of(context: Any, **options: Any) -> Any:
    return context.Process(**options)


def _place_of(taken: Any) -> int:
    place: int = taken[0]
    return place


def _frozen(packed: Any) -> Any:
    """A pickle and its buffers, the buffers in memory that all workers of the node map."""
    if packed is None:
        return None
    data, buffers = packed
    return (bytes(data), [freeze(array_of(each)) for each in buffers])


def _object_of(shared: Shared, fetch: Callable[[Any], Any] | None) -> Any:
    """A shared object, in the node's shared memory."""
    content = shared.content
    if type(content) is not tuple:
        assert fetch is not None, "a reference was sent to a node that cannot look it up"
        content = fetch(content)
    if shared.kind == "frozen":
        return freeze(unpack(*content))
    if shared.kind == "pickle":
        return _frozen(content)
    data, buffers = _frozen(content)
    return (shared.kind == "fresh function", (freeze(array_of(data)), buffers))


def _size_of(values: list[Any]) -> int:
    """About how many bytes the results have."""
    size = 64 * len(values)
    for each in values:
        if type(each) is bytes:
            size += len(each)
        elif type(each) is tuple and len(each) == 2:
            size += len(each[0]) + sum(array.nbytes for array in each[1])
    return size

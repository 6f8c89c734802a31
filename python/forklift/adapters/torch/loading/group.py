"""The workers of one iterator, as the loader's process sees them.

Each worker has a block of shared memory, a semaphore that counts the tasks in it, and, if batches are to come
in order, a queue of its own, so that the loader waits for the one batch that it needs. A worker's death is
seen at once: the sentinels of all workers are waited for, too.
"""

from __future__ import annotations

import collections
import os
import signal
import time
from multiprocessing.connection import wait as _wait_descriptors
from queue import Empty
from typing import Any, NamedTuple

from torch.utils.data import _DatasetKind, _utils

from forklift.adapters.torch.loading import block as words
from forklift.adapters.torch.loading.block import Block, Shape
from forklift.adapters.torch.loading.state import as_tensor
from forklift.adapters.torch.loading.worker import KEPT_BATCHES, Beginning, Ended, Resumed, Setup, run
from forklift.multiprocessing.connection import wait

__all__ = ["Message", "Policy", "WorkerGroup", "WorkerTimeout"]

# A batch that comes within this time is waited for on the queue alone, which takes no descriptor.
_SOON_S = 0.02
_MOST_DEATHS = 3  # of workers that made the same batch
_MOST_ATTEMPTS = 5  # at starting a worker in one place, in a row


class Policy(NamedTuple):
    """How the workers are used."""

    prefetch: int  # tasks at a time for each worker
    in_order: bool
    retries: bool  # whether dead workers are replaced
    persistent: bool


class Task(NamedTuple):
    number: int
    index: Any


# What a worker sends: its number, the batch's number, the batch.
Message = tuple[int, int, Any]


class WorkerTimeout(Exception):
    """No batch came in the time given."""


class _Worker:
    """A place in the group, with the process that has it now."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.process: Any = None
        self.block: Any = None
        self.tasks: Any = None
        self.messages: Any = None
        self.results: Any = None
        self.turn = 0  # of the next task
        self.active = True  # False once its dataset has ended in this epoch
        self.dismissed = False
        self.given: collections.deque[Task] = collections.deque()  # tasks whose batches have not come
        self.made: collections.deque[Task] = collections.deque(
            maxlen=KEPT_BATCHES + 2
        )  # the latest that have
        self.received = 0  # batches in this epoch
        self.resuming = False
        self.beginning = Beginning()
        self.restarts = 0
        self.deaths: collections.Counter[int] = (
            collections.Counter()
        )  # in this epoch, by the batch being made
        self.attempts = 0  # deaths since the last message
        self.spent = [0] * 6  # the counters of processes that are gone


class WorkerGroup:
    def __init__(
        self, context: Any, setup: Setup, policy: Policy, shape: Shape, places: list[Beginning]
    ) -> None:
        self._context, self._setup, self._policy, self._shape = context, setup, policy, shape
        self._pid = os.getpid()
        self._ready: dict[int, collections.deque[Message]] = collections.defaultdict(collections.deque)
        self._common = None if policy.in_order else context.Queue(strict=True)
        self._is_down = self._is_watched = False
        self.workers = [_Worker(number) for number in range(setup.workers)]
        try:
            for worker, beginning in zip(self.workers, places, strict=True):
                self._start(worker, beginning)
            self._watch()
        except BaseException:
            self.shut_down()
            raise

    def _start(self, worker: _Worker, beginning: Beginning) -> None:
        context = self._context
        worker.block = Block(self._shape)
        worker.tasks = context.Semaphore(0)
        worker.messages = context.Queue(strict=True)
        worker.results = self._common or context.Queue(strict=True)
        worker.turn = 0
        worker.beginning = beginning
        arguments = (self._setup, worker.number, worker.block, worker.tasks, worker.messages, worker.results)
        process = context.Process(target=run, args=(*arguments, beginning), daemon=True)
        process.start()
        worker.process = process

    def _watch(self) -> None:
        """Have torch's SIGCHLD handler raise its error when a worker dies, whatever the main thread does."""
        if not self._policy.retries:
            pids = tuple(worker.process.pid for worker in self.workers)
            _utils.signal_handling._set_worker_pids(id(self), pids)
            self._is_watched = True
            _utils.signal_handling._set_SIGCHLD_handler()

    # --- tasks

    def give(self, worker: _Worker, task: Task) -> None:
        worker.given.append(task)
        assert len(worker.given) <= self._shape.tasks - 2, "more tasks than the ring holds"
        self._write(worker, task)

    def _write(self, worker: _Worker, task: Task) -> None:
        if not worker.block.write_task(worker.turn, *task):
            worker.messages.put(task.index)
        worker.turn += 1
        worker.tasks.release()

    def _order(self, worker: _Worker, order: str) -> None:
        worker.block.write_order(worker.turn, order)
        worker.turn += 1
        worker.tasks.release()

    def largest_batch(self) -> int:
        return int(max(worker.block.words[words.LARGEST] for worker in self.workers))

    # --- batches

    def receive(self, worker: _Worker | None, timeout: float = 0) -> Message:
        """The next message of this worker, or of any (None). RuntimeError if a worker has died."""
        place = -1 if worker is None else worker.number
        deadline = time.monotonic() + timeout if timeout > 0 else None
        first = _SOON_S if deadline is None else min(_SOON_S, timeout)
        while True:
            if self._ready and self._ready[place]:
                return self._taken(self._ready[place].popleft())
            results: Any = self._common if worker is None else worker.results
            try:
                return self._taken(results.get(True, first))
            except Empty:
                first = 0.0
            if self._bury():
                continue
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise WorkerTimeout
            sentinels = [each.process.sentinel for each in self.workers if not each.dismissed]
            wait([results, *sentinels], left)

    def _taken(self, message: Message) -> Message:
        worker = self.workers[message[0]]
        worker.attempts = 0
        if type(message[2]) is Resumed:
            worker.resuming = False
            return message
        if type(message[2]) is not Ended:
            worker.received += 1
        for at, task in enumerate(worker.given):
            if task.number == message[1]:
                del worker.given[at]
                worker.made.append(task)
                break
        return message

    def dismiss(self, worker: _Worker) -> None:
        """The worker's dataset has no more in this epoch: it is sent home, or waits for the next one."""
        worker.active = False
        worker.given.clear()
        if not self._policy.persistent:
            worker.dismissed = True
            self._order(worker, "leave")

    def resume(self) -> None:
        """Have all workers begin an epoch, behind the tasks that they have. Their batches are dropped."""
        for worker in self.workers:
            worker.resuming = True
            self._order(worker, "resume")
        for worker in self.workers:
            while worker.resuming:
                self.receive(None if self._common else worker)
            worker.active = True
            worker.received = 0
            worker.given.clear()
            worker.made.clear()
            worker.beginning = Beginning()
            worker.deaths.clear()
        self._ready.clear()

    # --- deaths

    def _bury(self) -> bool:
        """Look for dead workers, and replace them or raise. True if there is news."""
        dead = [each for each in self.workers if not each.dismissed and not each.process.is_alive()]
        if not dead:
            return False
        if not self._policy.retries:
            raise _death(dead, "")
        for worker in dead:
            self._replace(worker)
        return True

    def _replace(self, worker: _Worker) -> None:
        self._drain(worker)
        waiting = [
            message for ready in self._ready.values() for message in ready if message[0] == worker.number
        ]
        come = {message[1] for message in waiting}
        kinds = {type(message[2]) for message in waiting}
        if Ended in kinds:
            worker.dismissed = not self._policy.persistent
        left = [task for task in worker.given if task.number not in come]
        self._count_death(worker, worker.block.words[words.MAKING] - 1)
        if Resumed in kinds:
            beginning = Beginning(worker.block.epoch_state())
        else:
            beginning = self._where(worker, [task for task in worker.given if task.number in come], len(come))
        worker.spent = [spent + now for spent, now in zip(worker.spent, _counters(worker), strict=True)]
        worker.process.close()
        worker.process = None
        if worker.dismissed:
            return
        self._start(worker, beginning)
        for task in left:
            self._write(worker, task)
        if worker.resuming and Resumed not in kinds:
            self._order(worker, "resume")

    @staticmethod
    def _count_death(worker: _Worker, making: int) -> None:
        """RuntimeError if one batch, or the start of a worker, is what they die of."""
        worker.restarts += 1
        worker.attempts += 1
        if making >= 0:
            worker.deaths[making] += 1
            if worker.deaths[making] >= _MOST_DEATHS:
                raise _death([worker], f", the {_MOST_DEATHS}rd one that made batch {making}")
        if worker.attempts >= _MOST_ATTEMPTS:
            raise _death([worker], f", the {_MOST_ATTEMPTS}th one in a row that sent nothing")

    def _drain(self, worker: _Worker) -> None:
        """Take what has arrived: a batch that a worker had sent before it died is not made again."""
        while True:
            try:
                message = worker.results.get(False)
            except Empty:
                return
            self._ready[-1 if self._common else worker.number].append(message)

    def _where(self, worker: _Worker, waiting: list[Task], come: int) -> Beginning:
        """Where the dead worker's successor begins, so that its batches are those that were to come."""
        made = [*worker.made, *waiting]
        if self._setup.dataset_kind == _DatasetKind.Iterable:  # all that was made in this epoch
            state = worker.block.epoch_state() or worker.beginning.random_state
            return Beginning(state, -1, (made[-1].index,) * (worker.received + come) if made else ())
        # A state behind a batch that the program has: behind later ones place() could not use it.
        number, state = _known_state(worker, worker.made[-1].number if worker.made else -1)
        return Beginning(state, number, tuple(task.index for task in made if task.number > number))

    # --- the end

    def place(self, worker: _Worker) -> dict[str, Any]:
        """The worker's part of a saved state: where its successor in another program begins."""
        random: bytes | None = worker.block.epoch_state() or worker.beginning.random_state
        number, replayed = -1, worker.received
        if self._setup.dataset_kind == _DatasetKind.Map:
            if not self._policy.in_order:
                random, replayed = None, 0  # other batches will be its
            else:
                number, random = _known_state(worker, worker.made[-1].number if worker.made else -1)
                replayed = sum(task.number > number for task in worker.made)
        return {
            "random": as_tensor(random),
            "number": number,
            "replayed": replayed,
            "received": worker.received,
            "ended": not worker.active,
        }

    def shut_down(self) -> None:
        """End all workers: those that do not leave in time are killed."""
        if self._is_down or self._pid != os.getpid() or _utils.python_exit_status is not False:
            return  # at its end the interpreter terminates daemons itself
        self._is_down = True
        if self._is_watched:
            _utils.signal_handling._remove_worker_pids(id(self))
        processes = [each.process for each in self.workers if each.process is not None]
        for worker in self.workers:
            if worker.process is not None:
                worker.block.words[words.STOP] = 1
                worker.tasks.release()
        for how in ("", "terminate", "kill"):
            for process in processes:
                if how:
                    getattr(process, how)()
            processes = _still_alive(processes)

    def books(self) -> list[tuple[int, list[int]]]:
        """For each worker the number of restarts, and its counters (see `block`), over all its processes."""
        return [
            (each.restarts, [*map(sum, zip(each.spent, _counters(each), strict=True))])
            for each in self.workers
        ]


def _known_state(worker: _Worker, last: int) -> tuple[int, bytes | None]:
    """The latest random state up to batch `last`, and the batch behind which it was kept (-1: none)."""
    number, state = worker.block.latest_state(last)
    if state is None:
        number, state = worker.beginning.number, worker.block.epoch_state() or worker.beginning.random_state
    return number, state


def _counters(worker: _Worker) -> list[int]:
    return list(worker.block.words[words.BATCHES : words.COPIED + 1]) if worker.block else [0] * 6


def _death(dead: list[_Worker], why: str) -> RuntimeError:
    pids = ", ".join(str(each.process.pid) for each in dead)
    how = ", ".join(f"worker {each.number} {_ending(each.process.exitcode)}" for each in dead)
    return RuntimeError(f"DataLoader worker (pid(s) {pids}) exited unexpectedly ({how}){why}")


def _ending(code: int) -> str:
    if code >= 0:
        return f"with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


def _still_alive(processes: list[Any]) -> list[Any]:
    """Those that have not ended after the time that torch gives its workers."""
    end = time.monotonic() + _utils.MP_STATUS_CHECK_INTERVAL
    while processes and time.monotonic() < end:
        ended = _wait_descriptors([each.sentinel for each in processes], end - time.monotonic())
        for each in processes:
            if each.sentinel in ended:
                each.join()
        processes = [each for each in processes if each.sentinel not in ended]
    return processes

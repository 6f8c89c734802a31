"""What a worker of a loader runs: it takes the tasks of its block, one after another, and sends the batches.

Seeds, worker_info, initialisation and errors are those of torch's own workers. A worker has no way out of its
own but the orders in its block: when the loader's process dies, the kernel kills the workers, since they are
daemons.
"""

from __future__ import annotations

import random
import time
from typing import Any, NamedTuple

import numpy as np
import torch
from torch._utils import ExceptionWrapper
from torch.utils.data import _DatasetKind
from torch.utils.data._utils import signal_handling
from torch.utils.data._utils import worker as _theirs
from torch.utils.data._utils.collate import default_collate

from forklift import _core
from forklift.adapters.torch.loading import block as words
from forklift.adapters.torch.loading import randomness
from forklift.adapters.torch.loading.block import Block
from forklift.adapters.torch.loading.collate import collate, size_of

__all__ = ["KEPT_BATCHES", "Beginning", "Ended", "Resumed", "Setup", "run"]

# A worker keeps its random state as often as this costs at most a twentieth of its time, but at least once in
# so many batches. In between, a state is reached again by making the batches again.
KEPT_BATCHES = 16
_SHARE = 20


class Setup(NamedTuple):
    """What all workers of an iterator have in common."""

    dataset_kind: int
    dataset: Any
    auto_collation: bool
    collate_fn: Any
    drop_last: bool
    base_seed: int
    init_fn: Any
    workers: int


class Beginning(NamedTuple):
    """Where a worker begins: in a random state, and after making some batches, which nobody gets."""

    random_state: bytes | None = None  # None: as torch seeds the workers
    number: int = -1  # of the batch behind which the state was kept; -1: that of the epoch's beginning
    replayed: tuple[Any, ...] = ()  # the indices of the batches to make


class Ended(NamedTuple):
    """Sent in place of a batch: the worker's iterable dataset has no more."""


class Resumed(NamedTuple):
    """Sent in place of a batch: the worker is ready for the next epoch."""


def run(
    setup: Setup, worker_id: int, block: Block, tasks: Any, messages: Any, results: Any, beginning: Beginning
) -> None:
    """A worker's life."""
    try:
        signal_handling._set_worker_signal_handlers()
        name_thread = getattr(torch.multiprocessing, "_set_thread_name", None)
        if name_thread is not None:
            name_thread("pt_data_worker")
        torch.set_num_threads(1)
        _core._torch.meet()  # from here on torch's shared memory is the arena's
        _seed(setup.base_seed, worker_id)
        _theirs._worker_info = _theirs.WorkerInfo(
            id=worker_id,
            num_workers=setup.workers,
            seed=setup.base_seed + worker_id,
            dataset=setup.dataset,
        )
        worker = _Worker(setup, worker_id, block, messages, results)
        worker.begin(beginning)
        worker.serve(tasks)
    except KeyboardInterrupt:
        pass  # the loader's process raises it, too


def _seed(base_seed: int, worker_id: int) -> None:
    random.seed(base_seed + worker_id)
    torch.manual_seed(base_seed + worker_id)
    np.random.seed(_theirs._generate_state(base_seed, worker_id))


class _Worker:
    def __init__(self, setup: Setup, worker_id: int, block: Block, messages: Any, results: Any) -> None:
        self._setup, self._id = setup, worker_id
        self._block, self._messages, self._results = block, messages, results
        self._collate = collate if setup.collate_fn is default_collate else setup.collate_fn
        self._iterable = setup.dataset_kind == _DatasetKind.Iterable
        self._fetcher: Any = None
        self._failure: Any = None  # of the initialisation, sent in place of the first batch
        self._ended = False  # the iterable dataset has no more in this epoch
        # How many random states were kept, what the last one cost, and what was done since.
        self._states = 0
        self._state_ns = self._worked_ns = self._batches = 0

    # --- beginning

    def begin(self, beginning: Beginning) -> None:
        try:
            if self._setup.init_fn is not None:
                self._setup.init_fn(self._id)
            self._make_fetcher()
        except Exception:
            self._failure = self._error()
            return
        if beginning.random_state is not None:
            randomness.restore(beginning.random_state)
        if beginning.number < 0:
            self._block.save_state(0, 0, randomness.pack())
        else:
            self._keep_state(beginning.number)
        for index in beginning.replayed:
            if not self._ended:
                self._fetch(index)

    def _make_fetcher(self) -> None:
        setup = self._setup
        self._fetcher = _DatasetKind.create_fetcher(
            setup.dataset_kind, setup.dataset, setup.auto_collation, self._collate, setup.drop_last
        )

    def _error(self) -> Any:
        return ExceptionWrapper(where=f"in DataLoader worker process {self._id}")

    # --- the tasks

    def serve(self, tasks: Any) -> None:
        """Do tasks until there is an order to leave. Each unit of the semaphore is one task in the block."""
        clock, counters = time.perf_counter_ns, self._block.words
        turn = 0
        while True:
            asked = clock()
            tasks.acquire()
            begun = clock()
            counters[words.BLOCKED_NS] += begun - asked
            if counters[words.STOP]:
                return
            number, kind, index = self._block.read_task(turn)
            turn += 1
            if kind == words.LEAVE:
                return
            if kind == words.RESUME:
                self._resume()
                continue
            if kind == words.MESSAGE:
                index = self._messages.get()
            if self._ended:
                continue  # the loader has not read of it yet
            counters[words.MAKING] = number + 1
            batch = self._make(index)
            made = clock()
            counters[words.BUSY_NS] += made - begun
            self._count(batch)
            if not self._iterable:
                self._worked(number, made - begun)
            self._send(number, batch)
            counters[words.MAKING] = 0
            del batch, index
            counters[words.SENDING_NS] += clock() - made

    def _make(self, index: Any) -> Any:
        if self._failure is not None:
            failure, self._failure = self._failure, None
            return failure
        return self._fetch(index)

    def _fetch(self, index: Any) -> Any:
        try:
            return self._fetcher.fetch(index)
        except Exception as error:
            if self._iterable and isinstance(error, StopIteration):
                self._ended = True
                return Ended()
            return self._error()

    def _resume(self) -> None:
        self._ended = False
        try:
            self._make_fetcher()
        except Exception:
            self._failure = self._error()
        self._block.forget_states()
        self._block.save_state(0, 0, randomness.pack())
        self._worked_ns = self._batches = 0
        self._results.put((self._id, -1, Resumed()))

    def _send(self, number: int, batch: Any) -> None:
        try:
            self._results.put((self._id, number, batch))
        except Exception:
            # What cannot be pickled, or finds no memory, is the program's error to know.
            self._results.put((self._id, number, self._error()))

    # --- books

    def _count(self, batch: Any) -> None:
        counters = self._block.words
        size, copied = size_of(batch)
        counters[words.BATCHES] += type(batch) is not Ended
        counters[words.BYTES] += size
        counters[words.COPIED] += copied
        if size > counters[words.LARGEST]:
            counters[words.LARGEST] = size

    def _worked(self, number: int, took_ns: int) -> None:
        """Keep the random state behind this batch if that is due."""
        self._worked_ns += took_ns
        self._batches += 1
        if self._worked_ns >= _SHARE * self._state_ns or self._batches >= KEPT_BATCHES:
            begun = time.perf_counter_ns()
            self._keep_state(number, randomness.pack())
            self._state_ns = time.perf_counter_ns() - begun
            self._worked_ns = self._batches = 0

    def _keep_state(self, number: int, state: bytes | None = None) -> None:
        self._states += 1
        self._block.save_state(self._states, number, state or randomness.pack())

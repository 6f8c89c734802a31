"""The iterators of `forklift.adapters.torch.DataLoader`, over workers and in the program's own process."""

from __future__ import annotations

import collections
import contextlib
import itertools
import time
from typing import Any

import torch
from torch._utils import ExceptionWrapper
from torch.utils.data import _DatasetKind
from torch.utils.data.dataloader import _BaseDataLoaderIter, _SingleProcessDataLoaderIter

from forklift.adapters.torch.loading import pinning, randomness, state
from forklift.adapters.torch.loading.block import Shape
from forklift.adapters.torch.loading.group import Policy, Task, WorkerGroup, WorkerTimeout
from forklift.adapters.torch.loading.source import begun, indices, most_indices
from forklift.adapters.torch.loading.worker import KEPT_BATCHES, Beginning, Ended, Setup

__all__ = ["OwnIterator", "WorkersIterator"]


class OwnIterator(_SingleProcessDataLoaderIter):  # type: ignore[misc]
    """Without workers."""

    group = None
    _sampler_iter: Any

    def __init__(self, loader: Any, saved: dict[str, Any] | None) -> None:
        self._consumed, self._over, self._number = 0, False, -1
        self._in_order = loader.in_order
        self._journal = loader._journal
        self._opening = saved or state.opening(loader)
        with contextlib.nullcontext() if saved is None else state.opened_again(saved):
            if saved is not None:
                state.restore_generators(loader, saved["generators"])
            super().__init__(loader)
            if saved is not None:
                self._skip(saved["consumed"])
        self._number = self._journal.enter(self)

    def _skip(self, count: int) -> None:
        for _ in range(count):
            index = self._next_index()
            if self._dataset_kind == _DatasetKind.Iterable:
                self._dataset_fetcher.fetch(index)
        self._consumed = count
        self._sampler_iter = begun(self._sampler_iter)

    def _next_data(self) -> Any:
        asked = time.perf_counter_ns()
        try:
            data = super()._next_data()
        except StopIteration:
            self._over = True
            raise
        self._consumed += 1
        self._journal.books.batches += 1
        self._journal.books.waited_ns += time.perf_counter_ns() - asked
        return data

    def state(self) -> dict[str, Any] | None:
        """What state_dict() returns. None if the epoch is over."""
        return None if self._over else _state(self, in_order=self._in_order, consumed=self._consumed)

    def __del__(self) -> None:
        if self._number > 0:
            self._journal.leave(self._number, self.state())


class WorkersIterator(_BaseDataLoaderIter):  # type: ignore[misc]
    """Over a group of workers."""

    group: WorkerGroup | None = None
    _sampler_iter: Any
    _source: Any  # of the indices of each batch

    def __init__(self, loader: Any, saved: dict[str, Any] | None) -> None:
        self._over, self._number = False, -1
        self._journal = loader._journal
        self._in_order, self._prefetch = loader.in_order, loader.prefetch_factor
        if self._prefetch <= 0:
            raise AssertionError("prefetch_factor must be greater than 0 for MultiProcessingDataLoaderIter")
        self._prefetch_bytes = loader.prefetch_bytes
        self._opening = saved or state.opening(loader)
        # Of the first epoch, whose beginning includes that of the workers (torch draws their seed then).
        self._is_first = saved is None or saved["first"]
        self._passed: list[list[Task]] = []  # of a saved state: each worker's latest tasks
        places = self._open(loader, saved)
        setup = Setup(
            self._dataset_kind,
            self._dataset,
            self._auto_collation,
            self._collate_fn,
            self._drop_last,
            self._base_seed,
            loader.worker_init_fn,
            self._num_workers,
        )
        policy = Policy(
            self._prefetch, self._in_order, loader.on_worker_death == "retry", self._persistent_workers
        )
        # Tasks: a worker may have one more than its share when a dataset's end has moved the turns, and the
        # orders to resume and to leave. States: one can be read while later ones are written.
        state_bytes = len(randomness.pack()) + 64
        shape = Shape(self._prefetch + 4, most_indices(self._index_sampler), self._prefetch + 4, state_bytes)
        self.group = WorkerGroup(loader.worker_context(), setup, policy, shape, places)
        self._begin(saved)
        self._number = self._journal.enter(self)

    # --- the beginning of an epoch

    def _open(self, loader: Any, saved: dict[str, Any] | None) -> list[Beginning]:
        """Ask the samplers, as torch does, and find the batch to begin with. Where each worker begins."""
        if saved is None:
            super().__init__(loader)
            self._ask_samplers(loader)
            return [Beginning()] * self._num_workers
        if not saved["first"]:
            with state.opened_again(saved):
                super().__init__(loader)  # whose draws were made in an earlier epoch
        with state.opened_again(saved):
            state.restore_generators(loader, saved["generators"])
            if saved["first"]:
                super().__init__(loader)
            self._base_seed = saved["base_seed"]
            self._ask_samplers(loader)
            self._passed = self._pass(saved)
            self._source = begun(self._source)
            return [*map(self._place, saved["places"], self._passed)]

    def _ask_samplers(self, loader: Any) -> None:
        super()._reset(loader, True)
        self._source = indices(self._index_sampler, self._sampler_iter)

    def _pass(self, saved: dict[str, Any]) -> list[list[Task]]:
        """Ask for the indices of the batches that were there before. For each worker its latest ones."""
        count = self._num_workers
        if self._dataset_kind == _DatasetKind.Iterable:
            return [[Task(-1, next(self._source))] * place["replayed"] for place in saved["places"]]
        passed = enumerate(itertools.islice(self._source, saved["prefix"]))
        latest = collections.deque(itertools.starmap(Task, passed), maxlen=count * (KEPT_BATCHES + 2))
        return [[task for task in latest if task.number % count == each] for each in range(count)]

    @staticmethod
    def _place(place: dict[str, Any], latest: list[Task]) -> Beginning:
        replayed = latest[len(latest) - place["replayed"] :]
        return Beginning(
            state.as_bytes(place["random"]), place["number"], tuple(task.index for task in replayed)
        )

    def _begin(self, saved: dict[str, Any] | None) -> None:
        """Have the workers begin with the epoch's first batches, or with those behind a saved state."""
        assert self.group is not None
        self._over = False
        self._outstanding = 0
        self._order: collections.deque[Any] = collections.deque()  # the worker of each outstanding task
        self._prefix = self._issued = 0 if saved is None else saved["prefix"]
        # Numbers from the prefix on that the program has, which happens out of order only.
        self._beyond: set[int] = set() if saved is None else set(saved["beyond"])
        self._next_worker = 0 if saved is None else saved["turn"]
        if saved is not None:
            for worker, place, made in zip(self.group.workers, saved["places"], self._passed, strict=True):
                worker.received = place["received"]
                worker.made.extend(made)
                if place["ended"]:
                    self.group.dismiss(worker)
        self._refill()

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        """The next epoch with the same workers."""
        assert self.group is not None
        self._opening, self._is_first = state.opening(loader), False
        self._ask_samplers(loader)
        self.group.resume()
        self._begin(None)
        self._number = self._journal.enter(self, self._number)

    # --- tasks

    def _limit(self) -> int:
        """How many batches may be outstanding."""
        assert self.group is not None
        most = int(self._prefetch) * sum(each.active for each in self.group.workers)
        if self._prefetch_bytes is None:
            return most
        # Batches may be of any size, so the largest one yet stands for all. Until there is one, one is asked.
        largest = self.group.largest_batch() or self._prefetch_bytes
        return min(most, max(1, int(self._prefetch_bytes // largest)))

    def _refill(self) -> None:
        while self._outstanding < self._limit() and self._issue():
            pass

    def _issue(self) -> bool:
        """Give the next batch to the worker whose turn it is. False if there is none, of either."""
        assert self.group is not None
        index = next(self._source, self)
        while index is not self and self._issued in self._beyond:
            self._issued += 1
            index = next(self._source, self)
        worker = self._turn() if index is not self else None
        if worker is None:
            return False
        self.group.give(worker, Task(self._issued, index))
        self._issued += 1
        self._outstanding += 1
        if self._in_order:
            self._order.append(worker)
        return True

    def _turn(self) -> Any:
        """In order, workers take turns. Out of order, a worker that has its share is passed over."""
        assert self.group is not None
        workers = self.group.workers
        for _ in workers:
            worker = workers[self._next_worker]
            self._next_worker = (self._next_worker + 1) % self._num_workers
            if worker.active and (self._in_order or len(worker.given) < self._prefetch):
                return worker
        return None

    # --- batches

    def __next__(self) -> Any:
        if self._IterableDataset_len_called is not None or torch.autograd._profiler_enabled():
            return super().__next__()
        data = self._next_data()
        self._num_yielded += 1
        return data

    def _next_data(self) -> Any:
        while True:
            number, batch = self._next_batch()
            if type(batch) is not Ended:
                break
        self._note(number)
        self._journal.books.batches += 1
        self._refill()
        if isinstance(batch, ExceptionWrapper):
            batch.reraise()
        if self._pin_memory:
            return pinning.pinned(batch, self._pin_memory_device)
        return batch

    def _note(self, number: int) -> None:
        """The program gets this batch. (Of iterable datasets each worker's batches are counted instead.)"""
        if number == self._prefix:
            self._prefix += 1
            while self._prefix in self._beyond:
                self._beyond.remove(self._prefix)
                self._prefix += 1
        elif self._dataset_kind == _DatasetKind.Map:
            self._beyond.add(number)

    def _next_batch(self) -> tuple[int, Any]:
        """The next message of the worker whose turn it is, or of any. StopIteration if none is to come."""
        if self.group is None:
            raise StopIteration  # the epoch is over, or was left
        worker = None
        while self._outstanding and self._in_order:
            worker = self._order.popleft()
            if worker.active:
                break
        if not self._outstanding:
            self._finish()
            raise StopIteration
        asked = time.perf_counter_ns()
        try:
            place, number, batch = self.group.receive(worker, self._timeout)
        except BaseException as error:
            if worker is not None:
                self._order.appendleft(worker)
            if isinstance(error, WorkerTimeout):
                raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds") from None
            raise
        finally:
            self._journal.books.waited_ns += time.perf_counter_ns() - asked
        self._outstanding -= 1
        if type(batch) is Ended:
            ended = self.group.workers[place]
            self._outstanding -= len(ended.given)
            self.group.dismiss(ended)
            self._refill()
        return number, batch

    def _finish(self) -> None:
        self._over = True
        self._order.clear()
        if not self._persistent_workers:
            self.shut_down()

    # --- the end

    def state(self) -> dict[str, Any] | None:
        """What state_dict() returns. None if the epoch is over."""
        if self._over or self.group is None:
            return None
        waiting = next((each for each in self._order if each.active), None)
        return _state(
            self,
            in_order=self._in_order,
            first=self._is_first,
            base_seed=self._base_seed,
            prefix=self._prefix,
            beyond=sorted(self._beyond),
            turn=self._next_worker if waiting is None else waiting.number,
            places=[self.group.place(each) for each in self.group.workers],
        )

    def shut_down(self) -> None:
        """End the workers."""
        if self.group is not None:
            self._journal.leave(self._number, self.state())
            self._journal.books.add(self.group.books())
            self.group.shut_down()
            self.group = None
            if self._pin_memory:
                pinning.collect()

    def __del__(self) -> None:
        self.shut_down()


def _state(iterator: Any, **more: Any) -> dict[str, Any]:
    return {
        "version": state.VERSION,
        "workers": iterator._num_workers,
        "open": True,
        "random": iterator._opening["random"],
        "generators": iterator._opening["generators"],
        **more,
    }

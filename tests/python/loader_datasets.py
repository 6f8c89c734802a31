"""Datasets of the DataLoader tests, in a module that a fresh interpreter finds by name. It imports torch."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import namedtuple
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset, IterableDataset, Sampler, get_worker_info

Pair = namedtuple("Pair", ["left", "right"])


class Numbers(Dataset):
    """A tensor filled with the index, and the index."""

    def __init__(self, count: int = 24, width: int = 2_000) -> None:
        self.count, self.width = count, width

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        return torch.full((self.width,), float(index)), index


class Noisy(Numbers):
    """Draws from the three generators that torch seeds in its workers. Index 7 takes longer than others."""

    def __getitem__(self, index: int) -> Any:
        if index == 7:
            time.sleep(0.05)
        draws = [random.random(), np.random.random(), torch.rand(()).item(), random.gauss(0, 1)]
        return torch.tensor([*draws, np.random.standard_normal()], dtype=torch.float64), index


class Nested(Numbers):
    """A dictionary with everything that torch's collate function knows."""

    def __getitem__(self, index: int) -> Any:
        return {
            "tensor": torch.arange(6).reshape(2, 3) + index,
            "array": np.full((3, 2), index, np.float32),
            "strided": np.arange(12, dtype=np.int16).reshape(3, 4)[:, ::2] + np.int16(index),
            "scalar": np.float64(index),
            "half": torch.full((3,), index, dtype=torch.bfloat16),
            "pair": Pair(torch.tensor(index), float(index)),
            "list": [index, f"number {index}", b"bytes"],
            "empty": torch.zeros(0, 2),
        }


class Uneven(IterableDataset):
    """Each worker's shard has its own length. Draws random numbers, too."""

    def __init__(self, lengths: tuple[int, ...] = (9, 2, 5)) -> None:
        self.lengths = lengths

    def __iter__(self) -> Any:
        info = get_worker_info()
        worker = info.id if info is not None else 0
        for number in range(self.lengths[worker % len(self.lengths)]):
            yield torch.tensor([100 * worker + number, torch.randint(1000, ()).item()]), random.random()


class Failing(Numbers):
    def __getitem__(self, index: int) -> Any:
        if index == 5:
            raise KeyError("no sample has this index")
        return super().__getitem__(index)


class Deadly(Noisy):
    """The worker that loads a certain index dies: always, or, with a folder for notes, the first times."""

    def __init__(self, index: int, noted: str = "", times: int = 1, number: int = signal.SIGKILL) -> None:
        super().__init__(48)
        self.index, self.noted, self.times, self.signal = index, noted, times, number

    def __getitem__(self, index: int) -> Any:
        if index == self.index and get_worker_info() is not None:
            note = Path(self.noted)
            deaths = len(list(note.iterdir())) if self.noted else -1
            if deaths < self.times:
                if self.noted:
                    (note / str(os.getpid())).touch()
                os.kill(os.getpid(), self.signal)
        return super().__getitem__(index)


class Stuck(Numbers):
    """Never loads the index."""

    def __init__(self, index: int) -> None:
        super().__init__()
        self.index = index

    def __getitem__(self, index: int) -> Any:
        if index >= self.index:
            while True:
                time.sleep(60)
        return super().__getitem__(index)


class Strange(Sampler):
    """Yields indices that are no plain numbers."""

    def __iter__(self) -> Any:
        for index in range(12):
            yield (np.int64(index), f"name {index}", 1 << 70)[index % 3]


class Named(Dataset):
    """Its samples are the indices that it is given, with their types, as text."""

    def __getitem__(self, index: Any) -> str:
        return f"{type(index).__name__} {index}"


class Unsendable(Numbers):
    def __getitem__(self, index: int) -> Any:
        return lambda: index


def seed(number: int = 3) -> None:
    torch.manual_seed(number)
    random.seed(number)
    np.random.seed(number)


def first(batch: Any) -> Any:
    return batch[0]


def to_numpy(batch: Any) -> Any:
    return np.array([index for _, index in batch]), [tensor for tensor, _ in batch]


def reseed(worker: int) -> None:
    random.seed(1_000 + worker)


def fail_to_begin(worker: int) -> None:
    if worker == 1:
        raise ValueError("worker 1 does not like it here")


def kill_workers(iterator: Any) -> None:
    """For iterators whose workers would never end by themselves. torch's SIGCHLD handler is not to mind."""
    group = getattr(iterator, "group", None)
    workers = iterator._workers if group is None else [each.process for each in group.workers]
    watched = iterator if group is None else group
    if getattr(watched, "_worker_pids_set", False) or getattr(watched, "_is_watched", False):
        torch._C._remove_worker_pids(id(watched))
        watched._worker_pids_set = watched._is_watched = False
    for worker in workers:
        worker.kill()
        worker.join()


def plain(value: Any) -> Any:
    """The value with lists in place of tensors and arrays, for comparisons."""
    if isinstance(value, (torch.Tensor, np.ndarray)):
        return str(value.dtype), tuple(value.shape), value.tolist()
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [plain(each) for each in value]
    return value


def collected(loader: Any, epochs: int = 1) -> list[Any]:
    return [[plain(batch) for batch in loader] for _ in range(epochs)]

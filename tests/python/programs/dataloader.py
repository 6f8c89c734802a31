"""torch's DataLoader: workers over arrays and streams, that are kept, seeded, out of order, or killed."""

import os
import random
import signal
import sys

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info


class Arrays(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        rng = np.random.default_rng(index)
        return rng.random((3, 64, 64), dtype=np.float32), index


class Draws(Dataset):
    """Samples that depend on the random numbers of the worker that makes them."""

    def __len__(self):
        return 20

    def __getitem__(self, index):
        return {"index": index, "draw": (random.random(), np.random.random(), torch.rand(2))}


class Stream(IterableDataset):
    def __iter__(self):
        worker = get_worker_info()
        return iter(range(worker.id, 21, worker.num_workers))


class Killed(Arrays):
    """The first worker is killed before it has sent anything: torch's tensors go with their sender."""

    def __getitem__(self, index):
        if index == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(index)


def seed_worker(worker):
    random.seed(100 + worker)


def show(name, loader, epochs=1):
    for epoch in range(epochs):
        for number, batch in enumerate(loader):
            print(name, epoch, number, batch)


def main():
    torch.set_num_threads(1)
    torch.manual_seed(1)
    loader = DataLoader(Arrays(), batch_size=8, num_workers=4, persistent_workers=True)
    for epoch in range(2):
        for batch, labels in loader:
            print(epoch, labels.tolist(), batch.dtype, tuple(batch.shape), f"{batch.double().sum():.6f}")
    two = {"batch_size": 4, "num_workers": 2}
    show("shuffled", DataLoader(Draws(), shuffle=True, generator=torch.Generator().manual_seed(5), **two), 2)
    show("kept", DataLoader(Draws(), shuffle=True, persistent_workers=True, **two), 2)
    show("seeded", DataLoader(Draws(), worker_init_fn=seed_worker, timeout=60, **two))
    show("stream", DataLoader(Stream(), **two), 2)
    show("stream kept", DataLoader(Stream(), persistent_workers=True, drop_last=True, **two), 2)
    any_order = DataLoader(Arrays(), in_order=False, **two)
    print("any order", sorted(labels.tolist() for _, labels in any_order))
    try:
        for _ in DataLoader(Killed(), **two):
            pass
    except RuntimeError as error:
        print("killed", "DataLoader worker" in str(error))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        torch.multiprocessing.set_start_method(sys.argv[1])
    main()

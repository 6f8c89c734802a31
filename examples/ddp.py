"""Ranks that train one network on CPUs, with torch's DistributedDataParallel.

    python examples/ddp.py                              # starts two ranks itself
    python examples/ddp.py --backend gloo               # the same program, torch's own backend
    torchrun --standalone --nproc-per-node 2 examples/ddp.py

The task: scikit-learn's handwritten digits. Each rank has its part of the images, and the gradients are
averaged, so all ranks have the same weights at each step.
"""

from __future__ import annotations

import argparse
import os
import tempfile

import forklift.adapters.torch.distributed  # noqa: F401  # registers the backend "forklift"
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def digits() -> tuple[torch.Tensor, torch.Tensor]:
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    return torch.from_numpy(images).float() / 16, torch.from_numpy(labels).long()


def train(epochs: int) -> None:
    """What each rank does once it belongs to the process group."""
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    images, labels = digits()
    for_tests = torch.arange(len(labels)) % 5 == 0
    mine = torch.arange(rank, 1400, size)
    x, y = images[~for_tests][mine], labels[~for_tests][mine]
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    network = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.5)
    for epoch in range(epochs):
        total = torch.zeros(1)
        for batch in torch.randperm(len(x)).split(20):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(network(x[batch]), y[batch])
            loss.backward()
            optimizer.step()
            total += loss.detach() * len(batch)
        dist.all_reduce(total)
        if rank == 0:
            print(f"epoch {epoch}: loss {total.item() / 1400:.4f}")
    weights = torch.cat([each.detach().flatten() for each in model.parameters()])
    everyones = [torch.empty_like(weights) for _ in range(size)]
    dist.all_gather(everyones, weights)
    if rank == 0:
        right = (model(images[for_tests]).argmax(1) == labels[for_tests]).float().mean().item()
        same = all(torch.equal(each, weights) for each in everyones)
        print(f"accuracy {right:.3f}, the same weights at all {size} ranks: {same}")


def start(rank: int, size: int, backend: str, epochs: int, store: str) -> None:
    dist.init_process_group(backend, init_method=f"file://{store}", rank=rank, world_size=size)
    train(epochs)
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--backend", choices=["forklift", "gloo"], default="forklift")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=6)
    options = parser.parse_args()
    if "TORCHELASTIC_RUN_ID" in os.environ:  # torchrun has started the ranks
        dist.init_process_group(options.backend)
        train(options.epochs)
        dist.destroy_process_group()
        return
    import forklift.multiprocessing as mp

    with tempfile.TemporaryDirectory() as folder:
        work = (options.ranks, options.backend, options.epochs, f"{folder}/store")
        mp.start_processes(start, work, nprocs=options.ranks, start_method="spawn")


if __name__ == "__main__":
    main()

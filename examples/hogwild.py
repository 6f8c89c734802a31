"""Hogwild: processes train one network in shared memory, without a lock (after the documentation of torch).

    python examples/hogwild.py --library torch          # torch.multiprocessing
    python examples/hogwild.py --library forklift       # the same program, another import

The task: scikit-learn's handwritten digits. One worker gives the same weights to the last bit on both
libraries. Several write into the same weights whenever they like, so then every run differs a little.
"""

from __future__ import annotations

import argparse
import importlib
from typing import Any

import torch
from torch import nn

LIBRARIES = {"torch": "torch.multiprocessing", "forklift": "forklift.multiprocessing"}


def digits() -> tuple[torch.Tensor, torch.Tensor]:
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    return torch.from_numpy(images).float() / 16, torch.from_numpy(labels).long()


def train(rank: int, workers: int, model: Any, images: Any, labels: Any, epochs: int, losses: Any) -> None:
    """Trains on every workers-th digit. All workers' steps go into the same weights."""
    torch.manual_seed(rank)
    torch.set_num_threads(1)
    images, labels = images[rank::workers], labels[rank::workers]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.5)
    for epoch in range(epochs):
        total = 0.0
        for batch in torch.randperm(len(images)).split(32):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images[batch]), labels[batch])
            loss.backward()
            optimizer.step()
            total += loss.item() * len(batch)
        losses.put((epoch, rank, total / len(images)))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--library", choices=LIBRARIES, default="forklift")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--method", choices=["fork", "spawn", "forkserver"], default="spawn")
    options = parser.parse_args()
    mp = importlib.import_module(LIBRARIES[options.library]).get_context(options.method)

    torch.manual_seed(1)
    torch.set_num_threads(1)
    images, labels = digits()
    for_tests = torch.arange(len(labels)) % 5 == 0
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    model.share_memory()
    losses = mp.Queue()
    shared = (model, images[~for_tests], labels[~for_tests], options.epochs, losses)
    processes = [
        mp.Process(target=train, args=(rank, options.workers, *shared)) for rank in range(options.workers)
    ]
    for process in processes:
        process.start()
    for epoch, rank, loss in sorted(losses.get() for _ in range(options.workers * options.epochs)):
        print(f"epoch {epoch}, worker {rank}: loss {loss:.6f}")
    for process in processes:
        process.join()
    if any(process.exitcode for process in processes):
        raise SystemExit("a worker failed")
    with torch.no_grad():
        right = (model(images[for_tests]).argmax(1) == labels[for_tests]).float().mean().item()
    weights = sum(parameter.double().sum().item() for parameter in model.parameters())
    print(f"accuracy {right:.3f}, sum of the weights {weights!r}")


if __name__ == "__main__":
    main()

"""A DataLoader: workers distort handwritten digits at random, and a network learns to read them.

    python examples/data_loader.py --library torch          # torch.utils.data.DataLoader
    python examples/data_loader.py --library forklift       # the same program, another import
    python -m forklift examples/data_loader.py --library torch      # no change at all

The order of the batches and the workers' random numbers are torch's, so the losses are the same to the last
bit. Forklift's loader also says where the time went, on stderr, and could go on from a checkpoint in
mid-epoch (state_dict) and without a worker that was killed (on_worker_death="retry"). The workers are
processes of the start method forkserver: Forklift's fork server has imported torch and NumPy for all of them.
"""

from __future__ import annotations

import argparse
import importlib
import random
import sys
from typing import Any

import numpy as np
import torch
from torch import nn

LIBRARIES = {"torch": "torch.utils.data", "forklift": "forklift.adapters.torch"}
SIDE = 28


class Digits(torch.utils.data.Dataset[Any]):  # type: ignore[misc]
    """scikit-learn's digits, each time somewhere else in the image, larger or smaller, and with noise."""

    def __init__(self, for_tests: bool) -> None:
        from sklearn.datasets import load_digits

        images, labels = load_digits(return_X_y=True)
        chosen = (np.arange(len(labels)) % 5 == 0) == for_tests
        self.images = (images[chosen].reshape(-1, 8, 8) / 16).astype(np.float32)
        self.labels = labels[chosen]

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        factor = random.choice((2, 3))
        digit = self.images[index].repeat(factor, 0).repeat(factor, 1)
        top, left = (random.randrange(SIDE - len(digit) + 1) for _ in range(2))
        image = np.random.normal(0, 0.1, (1, SIDE, SIDE)).astype(np.float32)
        image[0, top : top + len(digit), left : left + len(digit)] += digit
        return image, int(self.labels[index])


def make_network() -> Any:
    return nn.Sequential(
        nn.Conv2d(1, 16, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.Conv2d(16, 32, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.AdaptiveMaxPool2d(4),
        nn.Flatten(),
        nn.Linear(32 * 16, 10),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--library", choices=LIBRARIES, default="forklift")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--method", choices=["fork", "spawn", "forkserver"], default="forkserver")
    options = parser.parse_args()
    DataLoader: Any = importlib.import_module(LIBRARIES[options.library]).DataLoader

    torch.manual_seed(1)
    torch.set_num_threads(1)
    workers = {"num_workers": options.workers, "multiprocessing_context": options.method}
    loader = DataLoader(Digits(False), batch_size=32, shuffle=True, persistent_workers=True, **workers)
    for_tests = DataLoader(Digits(True), batch_size=128, **workers)
    network = make_network()
    optimizer = torch.optim.Adam(network.parameters(), lr=2e-3)
    for epoch in range(options.epochs):
        total = 0.0
        for images, labels in loader:
            loss = nn.functional.cross_entropy(network(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch}: loss {total / len(loader)!r}")
    right = 0
    with torch.no_grad():
        for images, labels in for_tests:
            right += int((network(images).argmax(1) == labels).sum())
    print(f"accuracy {right / len(for_tests.dataset):.3f}")
    if options.library == "forklift":
        print(loader.report(), file=sys.stderr)


if __name__ == "__main__":
    main()

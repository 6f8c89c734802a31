"""The real job: workers cut, augment and normalise crops of photographs, one consumer trains on them.

    python examples/photo_crops.py                       # both libraries, in turn; the faster run counts
    python examples/photo_crops.py --library forklift    # one of them

The task: read a handwritten digit (scikit-learn's digits) that lies somewhere on a piece of a photograph
(scikit-learn's china.jpg and flower.jpg). Training and evaluation share neither digits nor parts of the
photographs. A batch is one float32 array of 128 x 3 x 64 x 64, 6.3 MB.

Which library runs is one line, the import in run_one(). Everything else is the same: every work item carries
its own seed and the consumer takes the batches in order of their index, so the losses are the same to the
last bit, whichever worker made a batch and however it travelled.
"""

from __future__ import annotations

import argparse
import functools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

Batch: TypeAlias = tuple[int, np.ndarray, np.ndarray]  # its place in the order, images, labels

SIDE = 64  # of a crop, in pixels
CLASSES = 10


class Work(NamedTuple):
    """One batch to make: its place in the order, its seed, and which half of the data it may use."""

    number: int
    seed: int
    size: int
    held_out: bool


class Material(NamedTuple):
    """What batches are made of: parts of photographs, and digits with their labels."""

    photos: list[np.ndarray]
    digits: np.ndarray
    labels: np.ndarray


# --- the workers --------------------------------------------------------------------------------------------


@functools.cache
def load(held_out: bool) -> Material:
    """The right quarter of each photograph and every fifth digit are held out."""
    from sklearn.datasets import load_digits, load_sample_images

    photos = []
    for photo in load_sample_images().images:
        planes = photo.transpose(2, 0, 1)
        border = planes.shape[2] * 3 // 4
        photos.append(np.ascontiguousarray(planes[:, :, border:] if held_out else planes[:, :, :border]))
    images, labels = load_digits(return_X_y=True)
    chosen = (np.arange(len(labels)) % 5 == 0) == held_out
    digits = (images[chosen].reshape(-1, 8, 8) / 16.0).astype(np.float32)
    return Material(photos, digits, labels[chosen])


def cut(photo: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A square of the photograph at a random place and scale, flipped and turned by 90s at random."""
    scale = rng.uniform(1.0, 1.5)
    span = int(SIDE * scale)
    top = rng.integers(photo.shape[1] - span)
    left = rng.integers(photo.shape[2] - span)
    steps = (np.arange(SIDE) * scale).astype(np.intp)
    crop: Any = photo[:, top : top + span, left : left + span].take(steps, axis=1).take(steps, axis=2)
    mirror, flip, turn = rng.integers(2, size=3)  # together: all eight ways to lay a square
    crop = crop[:, :: 1 - 2 * flip, :: 1 - 2 * mirror]
    turned: np.ndarray = np.rot90(crop, axes=(1, 2)) if turn else crop
    return turned


def paste(image: np.ndarray, digit: np.ndarray, rng: np.random.Generator) -> None:
    """Draws the digit, 4 to 6 times its size, in a random bright colour."""
    factor = rng.integers(4, 7)
    ink = digit.repeat(factor, axis=0).repeat(factor, axis=1)
    top, left = rng.integers(SIDE - len(ink) + 1, size=2)
    place = image[:, top : top + len(ink), left : left + len(ink)]
    colour = rng.uniform(0.7, 1.0, size=(3, 1, 1)).astype(np.float32)
    place *= 1.0 - ink
    place += ink * colour


def make_batch(material: Material, work: Work) -> tuple[np.ndarray, np.ndarray]:
    """A pure function of its arguments: the same work gives the same batch in any process."""
    rng = np.random.default_rng(work.seed)
    images: Any = np.empty((work.size, 3, SIDE, SIDE), dtype=np.float32)
    chosen = rng.integers(len(material.labels), size=work.size)
    for image, pick in zip(images, chosen, strict=True):
        crop = cut(material.photos[rng.integers(len(material.photos))], rng)
        jitter = (rng.uniform(0.3, 0.7) * rng.uniform(0.85, 1.15, size=(3, 1, 1)) / 255.0).astype(np.float32)
        np.multiply(crop, jitter, out=image)
        paste(image, material.digits[pick], rng)
    images -= 0.27
    images /= 0.24
    return images, material.labels[chosen]


def produce(work_queue: Any, batch_queue: Any) -> None:
    """A worker's life: take work until there is none left."""
    for held_out in (False, True):
        load(held_out)
    while (work := work_queue.get()) is not None:
        images, labels = make_batch(load(work.held_out), work)
        batch_queue.put((work.number, images, labels))


def all_work(arguments: argparse.Namespace) -> Iterator[Work]:
    """Batch 0 only warms up; those behind the last step are for evaluation."""
    steps = arguments.epochs * arguments.batches
    for index in range(1 + steps + arguments.held_out):
        seed = arguments.seed * 1_000_003 + index
        yield Work(index, seed, arguments.size, held_out=index > steps)


# --- the consumer -------------------------------------------------------------------------------------------


class Inbox:
    """Batches in order of their index; counts bytes and the time spent waiting for them."""

    def __init__(self, queue: Any) -> None:
        self.queue = queue
        self.early: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self.bytes = 0
        self.waited = 0.0

    def take(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        start = time.perf_counter()
        while index not in self.early:
            number, images, labels = self.queue.get()
            self.early[number] = images, labels
            self.bytes += images.nbytes + labels.nbytes
        self.waited += time.perf_counter() - start
        return self.early.pop(index)


def train(inbox: Inbox, arguments: argparse.Namespace) -> dict[str, Any]:
    """Trains on arguments.epochs * arguments.batches batches, then evaluates on arguments.held_out more."""
    import torch
    from torch import nn
    from tqdm import tqdm

    torch.manual_seed(arguments.seed)
    torch.set_num_threads(1)  # so that the sums are in the same order each time
    network = nn.Sequential(
        nn.Conv2d(3, 16, 5, stride=4, padding=2),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * (SIDE // 8) ** 2, 64),
        nn.ReLU(),
        nn.Linear(64, CLASSES),
    )
    optimizer = torch.optim.Adam(network.parameters(), lr=2e-3)
    steps = arguments.epochs * arguments.batches
    losses: list[float] = []

    inbox.take(0)  # the workers are up: what it took to start them is not throughput
    inbox.bytes, inbox.waited = 0, 0.0
    start = time.perf_counter()
    progress = tqdm(range(1, steps + 1), desc=f"{arguments.library:>8}", unit="batch", mininterval=0.2)
    for index in progress:
        images, labels = inbox.take(index)
        loss = nn.functional.cross_entropy(network(torch.from_numpy(images)), torch.from_numpy(labels))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if index % 10 == 0:
            rate = inbox.bytes / 1e6 / (time.perf_counter() - start)
            progress.set_postfix(loss=f"{loss.item():.3f}", MB_s=f"{rate:.0f}")
    seconds = time.perf_counter() - start
    received = inbox.bytes
    waited = inbox.waited

    right = total = 0
    with torch.no_grad():
        for index in range(steps + 1, steps + 1 + arguments.held_out):
            images, labels = inbox.take(index)
            right += int((network(torch.from_numpy(images)).argmax(1) == torch.from_numpy(labels)).sum())
            total += len(labels)
    return {
        "library": arguments.library,
        "losses": losses,
        "accuracy": right / total,
        "seconds": seconds,
        "batches_per_s": steps / seconds,
        "MB_per_s": received / 1e6 / seconds,
        "waited_s": waited,
    }


def run_one(arguments: argparse.Namespace) -> dict[str, Any]:
    mp: Any
    if arguments.library == "forklift":
        import forklift.multiprocessing as mp
    else:
        import multiprocessing as mp

    work_queue = mp.Queue()
    batch_queue = mp.Queue(maxsize=2 * arguments.workers)
    workers = [
        mp.Process(target=produce, args=(work_queue, batch_queue), daemon=True)
        for _ in range(arguments.workers)
    ]
    for worker in workers:
        worker.start()
    for work in all_work(arguments):
        work_queue.put(work)
    for _ in workers:
        work_queue.put(None)
    result = train(Inbox(batch_queue), arguments)
    for worker in workers:
        worker.join()
    return result


# --- the command --------------------------------------------------------------------------------------------


def run_in_fresh_process(library: str, arguments: list[str]) -> dict[str, Any]:
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        command = [sys.executable, __file__, *arguments, "--library", library, "--json", out.name]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        result: dict[str, Any] = json.loads(Path(out.name).read_text())
        return result


def report(results: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="digits on photographs: workers cut, one network learns")
    for column in ("library", "MB/s", "batches/s", "seconds", "waiting", "last loss", "accuracy"):
        table.add_column(column, justify="left" if column == "library" else "right", no_wrap=True)
    for result in results:
        table.add_row(
            result["library"],
            f"{result['MB_per_s']:.0f}",
            f"{result['batches_per_s']:.1f}",
            f"{result['seconds']:.1f}",
            f"{result['waited_s']:.1f} s",
            f"{result['losses'][-1]:.4f}",
            f"{result['accuracy']:.1%}",
        )
    Console().print(table)


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the job, whichever program runs it."""
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batches", type=int, default=400, help="in an epoch")
    parser.add_argument("--held-out", type=int, default=10, help="batches to evaluate on")
    parser.add_argument("--size", type=int, default=128, help="crops in a batch")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write the result there too")


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--library", choices=["stdlib", "forklift", "both"], default="both")
    add_options(parser)
    return parser.parse_args(arguments)


def run_in_turn(argv: list[str]) -> list[dict[str, Any]]:
    """The faster run of each library, since a busy moment of the machine may fall on either."""
    libraries = ("stdlib", "forklift")
    runs = [[run_in_fresh_process(library, argv) for library in libraries] for _ in range(2)]
    return [max(of_library, key=lambda run: run["MB_per_s"]) for of_library in zip(*runs, strict=True)]


def main() -> int:
    arguments = parse(sys.argv[1:])
    results = [run_one(arguments)] if arguments.library != "both" else run_in_turn(sys.argv[1:])
    report(results)
    if arguments.json:
        arguments.json.write_text(json.dumps(results[0] if len(results) == 1 else results))
    if len(results) == 2:
        same = results[0]["losses"] == results[1]["losses"]
        print(f"losses of both runs: {'the same to the last bit' if same else 'DIFFERENT'}")
        return 0 if same else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

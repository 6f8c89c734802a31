"""DataLoaders with two workers: torch's, the same under ``python -m forklift``, and Forklift's own.

The samples are there already, so the figures are what collating, sending and receiving cost. In the rows
``loader-...`` the program does nothing with a batch, in ``learner-...`` it computes for some milliseconds,
and the time of a batch is compared with that of computing alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from rows.spec import Library, Row, Scale

PEER = "torch.multiprocessing"
PATCHED = "forklift"  # the module: `forklift.install()`, which is what `python -m forklift` does
OWN = "forklift.adapters.torch"
WORKERS = 2
SIDE = 512  # of the matrices that a learner multiplies
SIZES = {"4K": (4 << 10, 64, 600), "1M": (1 << 20, 16, 80)}  # of a sample; samples in a batch; batches


class Samples:
    """A dataset of tensors that exist, and labels."""

    def __init__(self, size: int, count: int) -> None:
        import torch

        self._tensors = [torch.full((size // 4,), float(number)) for number in range(32)]
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return self._tensors[index % 32], index


def _loader(library: Library, size: str, scale: Scale) -> Any:
    if library.name == PATCHED:
        library.module.install()  # before torch is imported
    import torch

    torch.set_num_threads(1)
    nbytes, batch, count = SIZES[size]
    kind = library.module.DataLoader if library.name == OWN else torch.utils.data.DataLoader
    samples = Samples(nbytes, batch * scale.count(count, 20))
    return kind(samples, batch_size=batch, shuffle=True, num_workers=WORKERS, persistent_workers=True)


def _rate(size: str) -> Callable[[Library, Scale], float]:
    def measure(library: Library, scale: Scale) -> float:
        """Batches a second in the second epoch: the workers are there by then, and memory is warm."""
        loader = _loader(library, size, scale)
        for _ in loader:
            pass
        begin = time.perf_counter()
        for _ in loader:
            pass
        return len(loader) / (time.perf_counter() - begin)

    return measure


def _compute(matrix: Any) -> None:
    for _ in range(4):
        matrix @ matrix


def _learning(size: str) -> Callable[[Library, Scale], float]:
    def measure(library: Library, scale: Scale) -> float:
        loader = _loader(library, size, scale)
        import torch

        matrix = torch.ones(SIDE, SIDE)
        for _ in loader:
            pass
        batches = iter(loader)
        for _ in range(2 * WORKERS + 2):  # the workers are ahead
            next(batches)
            _compute(matrix)
        count = 0
        begin = time.perf_counter()
        for _ in batches:
            _compute(matrix)
            count += 1
        return (time.perf_counter() - begin) / count * 1e6

    return measure


def _computing_alone(scale: Scale) -> float:
    import torch

    torch.set_num_threads(1)
    matrix = torch.ones(SIDE, SIDE)
    count = scale.count(200, 20)
    for _ in range(5):
        _compute(matrix)
    begin = time.perf_counter()
    for _ in range(count):
        _compute(matrix)
    return (time.perf_counter() - begin) / count * 1e6


def _rows(size: str) -> tuple[Row, ...]:
    nbytes, batch, _ = SIZES[size]
    note = f"batches of {batch} samples of {nbytes >> 10} KB, two workers"
    return (
        Row(
            f"loader-patched-{size}",
            "batches/s",
            4,
            more_is_better=True,
            measure=_rate(size),
            ours=PATCHED,
            peer=PEER,
            note=f"{note}, torch's DataLoader under python -m forklift",
        ),
        Row(
            f"loader-own-{size}",
            "batches/s",
            6,
            more_is_better=True,
            measure=_rate(size),
            ours=OWN,
            peer=PEER,
            note=note,
        ),
        Row(
            f"learner-{size}",
            "us",
            1.0,
            measure=_learning(size),
            floor=_computing_alone,
            floor_name="computing alone",
            floor_factor=1.1,
            ours=OWN,
            peer=PEER,
            note=f"{note}, and a learner that computes for each batch",
        ),
    )


ROWS = tuple(row for size in SIZES for row in _rows(size))

"""The training job of photo_crops.py with its workers on a cluster: one word says on which.

    python examples/photo_cluster.py                                                      # on this machine
    python examples/photo_cluster.py --context ray                                        # on a Ray cluster
    mpirun -n 4 python -m forklift.mpi examples/photo_cluster.py --context mpi            # in an MPI job

Batches are results of a pool's tasks, in order. A batch is a pure function of its seed, so the losses are the
same to the last bit on all contexts, and for photo_crops.py; also where a worker or a node dies meanwhile,
since its batches are made again elsewhere.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import forklift.multiprocessing as mp
import photo_crops


def make(work: photo_crops.Work) -> photo_crops.Batch:
    """A task: one batch."""
    return work.number, *photo_crops.make_batch(photo_crops.load(work.held_out), work)


class Batches:
    """The results of the tasks as a queue, which is what photo_crops.Inbox takes them from."""

    def __init__(self, results: Iterator[photo_crops.Batch]) -> None:
        self._results = results

    def get(self) -> photo_crops.Batch:
        return next(self._results)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--context", choices=["forkserver", "ray", "mpi"], default="forkserver")
    photo_crops.add_options(parser)
    arguments = parser.parse_args()
    arguments.library = arguments.context
    context: Any = mp.get_context(arguments.context)
    with context.Pool(arguments.workers) as pool:
        results = pool.imap(make, photo_crops.all_work(arguments), retries=2)
        result = photo_crops.train(photo_crops.Inbox(Batches(results)), arguments)
    photo_crops.report([result])
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(result))


if __name__ == "__main__":
    main()

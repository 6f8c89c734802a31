"""The rows of the benchmarks, one module for each theme. `rows.spec` says what a row is."""

from __future__ import annotations

from rows import (
    arrays,
    batches,
    cluster,
    collectives,
    cpp,
    cross,
    device,
    executors,
    jobs,
    loaders,
    locks,
    managers,
    mpi,
    operations,
    pinned,
    pipes,
    process_groups,
    processes,
    queues,
    starting,
    torch,
    values,
    work,
)
from rows.spec import Row

ROWS: tuple[Row, ...] = (
    *queues.ROWS,
    *batches.ROWS,
    *pipes.ROWS,
    *arrays.ROWS,
    *values.ROWS,
    *processes.ROWS,
    *starting.ROWS,
    *work.ROWS,
    *jobs.ROWS,
    *pinned.ROWS,
    *executors.ROWS,
    *managers.ROWS,
    *locks.ROWS,
    *operations.ROWS,
    *torch.ROWS,
    *loaders.ROWS,
    *collectives.ROWS,
    *process_groups.ROWS,
    *cluster.ROWS,
    *mpi.ROWS,
    *cpp.ROWS,
    *cross.ROWS,
)
# Measured by bench/device.py, on a machine with a GPU.
DEVICE_ROWS: tuple[Row, ...] = device.ROWS

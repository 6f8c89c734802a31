"""Forklift in an MPI job: ``mpirun -n 4 python -m forklift.mpi script.py``, and ``get_context("mpi")`` in the
script.

Rank 0, the driver, runs the script. The other ranks are grouped into nodes; of each node one rank, the
agent, hosts a Forklift domain and the workers. docs/scale.md says what holds.
"""

from __future__ import annotations

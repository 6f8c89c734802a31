"""``mpirun -n 4 python -m forklift.mpi script.py``: see forklift.cluster.mpi.launcher, and docs/scale.md."""

import sys

from forklift.cluster.mpi.launcher import main as main

if __name__ == "__main__":
    main(sys.argv[1:])

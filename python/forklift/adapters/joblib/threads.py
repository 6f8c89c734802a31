"""How many threads the numeric libraries of a worker use: its share of the processors, as in loky's workers.

The variables of the environment (``OMP_NUM_THREADS``, ``OPENBLAS_NUM_THREADS`` …) reach what the worker loads
later. A forked worker has its parent's libraries, which no longer look at them: those are told by
`threadpoolctl <https://github.com/joblib/threadpoolctl>`_, where it is installed (scikit-learn needs it).
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

__all__ = ["start"]

# By threadpoolctl's names of the libraries.
_VARIABLES = {
    "openblas": "OPENBLAS_NUM_THREADS",
    "openmp": "OMP_NUM_THREADS",
    "mkl": "MKL_NUM_THREADS",
    "blis": "BLIS_NUM_THREADS",
}


def start(
    environment: Mapping[str, str],
    exactly: bool,
    initializer: Callable[..., object] | None,
    initargs: tuple[Any, ...],
) -> None:
    """In a new worker: sets its environment and the threads of loaded libraries, then calls `initializer`.

    With ``exactly`` a loaded library gets the number that the environment says, else at most that.
    """
    os.environ.update(environment)
    _limit_loaded(environment, exactly)
    if initializer is not None:
        initializer(*initargs)


def _limit_loaded(environment: Mapping[str, str], exactly: bool) -> None:
    try:
        from threadpoolctl import ThreadpoolController  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        return
    for library in ThreadpoolController().lib_controllers:
        wanted = environment.get(_VARIABLES.get(library.internal_api, ""), "")
        now = library.num_threads
        # OpenMP's variable may name a number for each level ("4,2").
        if wanted.isdecimal() and now is not None and (exactly or int(wanted) < now):
            library.set_num_threads(int(wanted))

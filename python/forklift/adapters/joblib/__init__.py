"""joblib's backend "forklift": ``Parallel`` on ``forklift.ProcessPoolExecutor``.

    import forklift.adapters.joblib                     # registers the backend
    with joblib.parallel_config(backend="forklift"):
        joblib.Parallel(n_jobs=4)(joblib.delayed(f)(x) for x in xs)

Arguments and results travel through shared memory: an array arrives as private, writable memory, and joblib's
files of memory maps (``max_nbytes``, ``temp_folder``) are not used. Functions and classes of the main module,
lambdas and closures travel by value, everything else by name.

As loky's, the workers are kept for the next call of ``Parallel`` with the same options, for 300 seconds or
``idle_worker_timeout``; 0 ends them with the call. `shutdown` ends them at once. What a worker has imported,
and the state that it has changed, is there in later calls.

A worker's share of the processors is the number of threads that numeric libraries (BLAS, OpenMP …) use in it,
or ``inner_max_num_threads`` of ``parallel_config``, or what the environment says (``OMP_NUM_THREADS`` …). Of
libraries that a forked worker has from its parent this needs threadpoolctl.

``parallel_config(backend="forklift", mp_context=..., on_death=...)`` and ``initializer``, ``initargs`` and
``max_tasks_per_child`` are passed on to the executor. ImportError without joblib.
"""

from __future__ import annotations

import os
from multiprocessing import process as _std_process

try:
    import joblib  # type: ignore[import-untyped,unused-ignore]
    from joblib import _parallel_backends as _theirs
except ImportError as error:
    raise ImportError("the backend for joblib needs joblib: python -m pip install joblib") from error

from forklift.adapters.joblib import kept, threads
from forklift.adapters.joblib.calls import sendable
from forklift.adapters.joblib.kept import shutdown
from forklift.multiprocessing._executor.executor import ProcessPoolExecutor
from forklift.multiprocessing.context import _default_context

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["NAME", "ForkliftBackend", "shutdown"]

NAME = "forklift"

_Base: Any = _theirs.ParallelBackendBase
_AutoBatching: Any = _theirs.AutoBatchingMixin
# The options of Parallel for memory maps, which this backend does not need.
_FOR_MEMORY_MAPS = ("max_nbytes", "mmap_mode", "temp_folder", "verbose")


class ForkliftBackend(_AutoBatching, _Base):  # type: ignore[misc]
    """The backend that joblib knows as "forklift"."""

    supports_retrieve_callback = True
    supports_inner_max_num_threads = True
    _executor: ProcessPoolExecutor | None = None
    _made_with: Any = None
    _idle_seconds = kept.IDLE_S

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """How many workers `n_jobs` stands for: -1 is one for each processor, -2 one less, and so on."""
        if n_jobs == 0:
            raise ValueError("n_jobs == 0 in Parallel has no meaning")
        if n_jobs is None or _std_process.current_process().daemon:
            return 1
        if n_jobs < 0:
            return max(len(os.sched_getaffinity(0)) + 1 + n_jobs, 1)
        return n_jobs

    def configure(
        self,
        n_jobs: int = 1,
        parallel: Any = None,
        prefer: Any = None,
        require: Any = None,
        **options: Any,
    ) -> int:
        """Take the kept workers or make new ones, and return their number."""
        n_jobs = self.effective_n_jobs(n_jobs)
        if n_jobs == 1:
            raise _theirs.FallbackToBackend(_theirs.SequentialBackend(nesting_level=self.nesting_level))
        given = {**self.backend_kwargs, **options}
        given = {name: value for name, value in given.items() if name not in _FOR_MEMORY_MAPS}
        context = given.pop("context", None)  # joblib's own name
        if context is not None:
            given.setdefault("mp_context", context)
        idle = given.pop("idle_worker_timeout", None)
        self._idle_seconds = kept.IDLE_S if idle is None else idle
        environment = self._prepare_worker_env(n_jobs)
        method = given.get("mp_context") or _default_context.get_start_method()
        self._made_with = (n_jobs, given, method, environment, self.inner_max_num_threads)
        self._executor = kept.take(self._made_with) or self._new_executor()
        self.parallel = parallel
        return n_jobs

    def submit(self, func: Callable[[], Any], callback: Callable[[Any], Any] | None = None) -> Any:
        """Call a batch in a worker. Returns its future, which calls `callback`."""
        if self._executor is None:
            raise RuntimeError("the backend's workers have been ended")
        future = self._executor.submit(*sendable(func))
        if callback is not None:
            future.add_done_callback(callback)
        return future

    def retrieve_result_callback(self, future: Any) -> Any:
        """The results of a batch."""
        return future.result()

    def terminate(self) -> None:
        """Leave the workers to the next call."""
        executor, self._executor = self._executor, None
        if executor is not None:
            kept.give(executor, self._made_with, self._idle_seconds)
        self.reset_batch_stats()

    def abort_everything(self, ensure_ready: bool = True) -> None:
        """Kill the workers, and start new ones if more calls may come."""
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.kill_workers()
        if ensure_ready:
            self._executor = self._new_executor()

    def _new_executor(self) -> ProcessPoolExecutor:
        n_jobs, given, _, environment, inner_threads = self._made_with
        options = dict(given)
        users = (options.pop("initializer", None), options.pop("initargs", ()))
        initargs = (environment, inner_threads is not None, *users)
        return ProcessPoolExecutor(n_jobs, initializer=threads.start, initargs=initargs, **options)


joblib.register_parallel_backend(NAME, ForkliftBackend)

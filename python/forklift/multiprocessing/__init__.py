"""The standard library's ``multiprocessing``, over shared memory.

    from forklift.multiprocessing import Process, Queue

Everything that ``multiprocessing`` exports is here under the same name, and everything that
``torch.multiprocessing`` adds to it: ``spawn``, sharing strategies, ``reductions``. Queues, pipes, locks,
shared values, ``Pool`` and the processes are Forklift's. Everything else, and all state, is the standard
library's own, or torch's, so programs may mix the modules. Nothing imports torch before the program does.
"""

import sys

if sys.platform != "linux":
    raise ImportError(f"forklift.multiprocessing needs Linux, not {sys.platform}")

TYPE_CHECKING = False
if TYPE_CHECKING:
    from multiprocessing import AuthenticationError as AuthenticationError
    from multiprocessing import BufferTooShort as BufferTooShort
    from multiprocessing import ProcessError as ProcessError
    from multiprocessing import TimeoutError as TimeoutError
    from multiprocessing import process as process
    from multiprocessing import reduction as reduction

    from forklift.multiprocessing import connection as connection
    from forklift.multiprocessing import context as context
    from forklift.multiprocessing import dummy as dummy
    from forklift.multiprocessing import forkserver as forkserver
    from forklift.multiprocessing import heap as heap
    from forklift.multiprocessing import managers as managers
    from forklift.multiprocessing import pool as pool
    from forklift.multiprocessing import popen_fork as popen_fork
    from forklift.multiprocessing import popen_forkserver as popen_forkserver
    from forklift.multiprocessing import popen_spawn_posix as popen_spawn_posix
    from forklift.multiprocessing import queue as queue
    from forklift.multiprocessing import queues as queues
    from forklift.multiprocessing import reductions as reductions
    from forklift.multiprocessing import resource_sharer as resource_sharer
    from forklift.multiprocessing import resource_tracker as resource_tracker
    from forklift.multiprocessing import shared_memory as shared_memory
    from forklift.multiprocessing import sharedctypes as sharedctypes
    from forklift.multiprocessing import synchronize as synchronize
    from forklift.multiprocessing import util as util
    from forklift.multiprocessing._names import _get_thread_name as _get_thread_name
    from forklift.multiprocessing._names import _prctl_pr_set_pdeathsig as _prctl_pr_set_pdeathsig
    from forklift.multiprocessing._names import _set_thread_name as _set_thread_name
    from forklift.multiprocessing._names import get_all_sharing_strategies as get_all_sharing_strategies
    from forklift.multiprocessing._names import get_sharing_strategy as get_sharing_strategy
    from forklift.multiprocessing._names import set_sharing_strategy as set_sharing_strategy
    from forklift.multiprocessing._start.together import start_all as start_all
    from forklift.multiprocessing.context import Process as Process
    from forklift.multiprocessing.context import _default_context
    from forklift.multiprocessing.queues import JoinableQueue as JoinableQueue  # classes: for Queue[int]
    from forklift.multiprocessing.queues import Queue as Queue
    from forklift.multiprocessing.queues import SimpleQueue as SimpleQueue
    from forklift.multiprocessing.spawn import ENV_VAR_PARALLEL_START as ENV_VAR_PARALLEL_START
    from forklift.multiprocessing.spawn import ProcessContext as ProcessContext
    from forklift.multiprocessing.spawn import ProcessExitedException as ProcessExitedException
    from forklift.multiprocessing.spawn import ProcessRaisedException as ProcessRaisedException
    from forklift.multiprocessing.spawn import SpawnContext as SpawnContext
    from forklift.multiprocessing.spawn import spawn as spawn
    from forklift.multiprocessing.spawn import start_processes as start_processes
    from forklift.multiprocessing.spawn import start_ranks as start_ranks

    reducer = reduction
    Array = _default_context.Array
    Barrier = _default_context.Barrier
    BoundedSemaphore = _default_context.BoundedSemaphore
    Condition = _default_context.Condition
    Event = _default_context.Event
    Lock = _default_context.Lock
    Manager = _default_context.Manager
    Pipe = _default_context.Pipe
    Pool = _default_context.Pool
    RLock = _default_context.RLock
    RawArray = _default_context.RawArray
    RawValue = _default_context.RawValue
    Semaphore = _default_context.Semaphore
    Value = _default_context.Value
    active_children = _default_context.active_children
    allow_connection_pickling = _default_context.allow_connection_pickling
    cpu_count = _default_context.cpu_count
    current_process = _default_context.current_process
    freeze_support = _default_context.freeze_support
    get_all_start_methods = _default_context.get_all_start_methods
    get_context = _default_context.get_context
    get_logger = _default_context.get_logger
    get_start_method = _default_context.get_start_method
    log_to_stderr = _default_context.log_to_stderr
    parent_process = _default_context.parent_process
    set_executable = _default_context.set_executable
    set_forkserver_preload = _default_context.set_forkserver_preload
    set_start_method = _default_context.set_start_method

__all__ = [
    "Array",
    "AuthenticationError",
    "Barrier",
    "BoundedSemaphore",
    "BufferTooShort",
    "Condition",
    "Event",
    "JoinableQueue",
    "Lock",
    "Manager",
    "Pipe",
    "Pool",
    "Process",
    "ProcessError",
    "Queue",
    "RLock",
    "RawArray",
    "RawValue",
    "Semaphore",
    "SimpleQueue",
    "TimeoutError",
    "Value",
    "active_children",
    "allow_connection_pickling",
    "cpu_count",
    "current_process",
    "freeze_support",
    "get_all_sharing_strategies",
    "get_all_start_methods",
    "get_context",
    "get_logger",
    "get_sharing_strategy",
    "get_start_method",
    "log_to_stderr",
    "parent_process",
    "reducer",
    "set_executable",
    "set_forkserver_preload",
    "set_sharing_strategy",
    "set_start_method",
]
SUBDEBUG = 5
SUBWARNING = 25
_CONTEXT_AND_ITS_MODULES = ("context", "process", "reduction")
# In the standard library a module becomes an attribute once something has imported it, and programs rely on
# that (mp.connection after mp.Pipe()). Forklift may have imported other modules by then, so each of these is
# imported when the attribute is read.
_MODULES = (
    "connection",
    "dummy",
    "forkserver",
    "heap",
    "managers",
    "pool",
    "popen_fork",
    "popen_forkserver",
    "popen_spawn_posix",
    "queue",
    "queues",
    "reductions",
    "resource_sharer",
    "resource_tracker",
    "shared_memory",
    "sharedctypes",
    "spawn",
    "synchronize",
    "util",
)
# What the standard library lacks, names of torch.multiprocessing and ours: module of this package, its names.
_BESIDES = {
    "_names": (
        "_get_thread_name",
        "_prctl_pr_set_pdeathsig",
        "_set_thread_name",
        "get_all_sharing_strategies",
        "get_sharing_strategy",
        "set_sharing_strategy",
    ),
    "_start.together": ("start_all",),
    "reductions": ("init_reductions",),
    "spawn": (
        "ENV_VAR_PARALLEL_START",
        "ProcessContext",
        "ProcessExitedException",
        "ProcessRaisedException",
        "SpawnContext",
        "start_processes",
        "start_ranks",
    ),
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name in _MODULES:
            full = f"{__name__}.{name}"
            __import__(full)  # sets the attribute as well
            return sys.modules[full]
        for module, names in _BESIDES.items():
            if name in names:
                full = f"{__name__}.{module}"
                __import__(full)
                found = globals()[name] = getattr(sys.modules[full], name)
                return found
        # Export all names when the first one is read. Every child that is a fresh interpreter imports this
        # package, and many need no more of it than the class of a queue.
        if name not in _CONTEXT_AND_ITS_MODULES and name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        _export()
        return globals()[name]

    def _export() -> None:
        # (`from forklift.multiprocessing import context` would read the attribute and call this again.)
        from forklift.multiprocessing.context import _default_context

        # The standard library's own modules also get this package's name. They are loaded already, so there
        # is no need to import Forklift's modules of these names.
        for each in ("process", "reduction"):
            globals()[each] = sys.modules[f"{__name__}.{each}"] = sys.modules[f"multiprocessing.{each}"]
        for each in __all__:
            if each not in _BESIDES["_names"]:
                globals()[each] = getattr(_default_context, each)


def __dir__() -> list[str]:
    torchs = (name for names in _BESIDES.values() for name in names)
    return sorted({*globals(), *__all__, *_CONTEXT_AND_ITS_MODULES, *torchs})

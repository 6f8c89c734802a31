"""The standard library's ``multiprocessing``, over shared memory.

    from forklift.multiprocessing import Process, Queue

Everything that ``multiprocessing`` exports is here under the same name. Queues, pipes, locks, shared values,
``Pool`` and the processes are Forklift's; all else, and all state, is the standard library's own, so that
programs may mix the two.
"""

# ruff: noqa: F405
import sys

if sys.platform != "linux":
    raise ImportError(f"forklift.multiprocessing needs Linux, not {sys.platform}")

TYPE_CHECKING = False
if TYPE_CHECKING:
    from multiprocessing import process as process
    from multiprocessing import reduction as reduction

    from forklift.multiprocessing import context as context
    from forklift.multiprocessing.api import *  # noqa: F403
    from forklift.multiprocessing.api import SUBDEBUG as SUBDEBUG
    from forklift.multiprocessing.api import SUBWARNING as SUBWARNING

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
    "get_all_start_methods",
    "get_context",
    "get_logger",
    "get_start_method",
    "log_to_stderr",
    "parent_process",
    "reducer",
    "set_executable",
    "set_forkserver_preload",
    "set_start_method",
]
_OTHERS = ("SUBDEBUG", "SUBWARNING", "context", "process", "reduction")


def __getattr__(name: str) -> object:
    # All of it with the first name: every fresh interpreter among the children imports this package, and many
    # need no more of it than the class of a queue.
    if name not in _OTHERS and name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from forklift.multiprocessing import api

    globals().update({each: getattr(api, each) for each in (*__all__, *_OTHERS)})
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_OTHERS})

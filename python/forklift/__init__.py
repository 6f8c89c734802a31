"""Forklift: processes share tensors almost the way threads do.

    from forklift.multiprocessing import Process, Queue   # instead of multiprocessing

Arrays that pass through a queue travel through shared memory. A ``forklift.Tensor`` lies in memory that
processes share: what one process writes, the others see.
"""

import os as _os
import sys as _sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # not `from typing import`: every child that is a fresh interpreter imports this module
    from typing import Any

    from forklift import context as context
    from forklift import multiprocessing as multiprocessing
    from forklift import ops as ops
    from forklift._core import (
        DeviceEvent,
        Tensor,
        __version__,
        audit,
        configure,
        empty,
        reap,
        set_budget,
        stats,
        tensor,
        trim,
        zeros,
    )
    from forklift.adapters.carried import Carried
    from forklift.cli.cmake import get_cmake_dir
    from forklift.diagnosis import Diagnosis, why
    from forklift.errors import (
        AbandonedLockWarning,
        BatchFull,
        BrokenByForkError,
        BrokenGroupError,
        CollectiveMismatchError,
        ConversionError,
        CorruptError,
        DeviceError,
        DisconnectedError,
        FinishedError,
        ForkHangError,
        ForkliftError,
        ForkRefusedError,
        ForkServerWarning,
        ForkWarning,
        NameTakenError,
        NoSpaceError,
        NotAcrossNodesError,
        NotAttachedError,
        NotFoundError,
        OverBudgetError,
        PeerDiedError,
        PoolStoppedError,
        RefusedError,
        StalledError,
        VersionError,
        WorkerDiedError,
    )
    from forklift.event_log import log_to
    from forklift.fork import fork_report, get_fork_policy, register_fork_guard, set_fork_policy
    from forklift.multiprocessing._executor.executor import ProcessPoolExecutor
    from forklift.multiprocessing._pool.failures import ResultDecodingError, TaskTimeoutError
    from forklift.multiprocessing._pool.insights import PoolInsights
    from forklift.objects.broadcast import Broadcast, Latest, Subscription
    from forklift.objects.frozen import FrozenDict, FrozenList, FrozenTuple, freeze, open_frozen, share, thaw
    from forklift.objects.labels import label_of, set_label
    from forklift.objects.naming import Domain, attach, meet, own_domain, serve
    from forklift.objects.portable import PortableQueue, Program, inherited
    from forklift.patch import install
    from forklift.telemetry import use_opentelemetry

# These modules are imported when the program first uses a name: every child that is a fresh interpreter
# imports this package, and many children use nothing of it, not even queues and locks, which need the C++
# core.
_LATER = {
    "_core": (
        "DeviceEvent",
        "Tensor",
        "__version__",
        "audit",
        "configure",
        "empty",
        "reap",
        "set_budget",
        "stats",
        "tensor",
        "trim",
        "zeros",
    ),
    "adapters.carried": ("Carried",),
    "objects.labels": ("label_of", "set_label"),
    "objects.broadcast": ("Broadcast", "Latest", "Subscription"),
    "cli.cmake": ("get_cmake_dir",),
    "diagnosis": ("Diagnosis", "why"),
    "event_log": ("log_to",),
    "errors": (
        "AbandonedLockWarning",
        "BatchFull",
        "BrokenByForkError",
        "BrokenGroupError",
        "CollectiveMismatchError",
        "ConversionError",
        "CorruptError",
        "DeviceError",
        "DisconnectedError",
        "FinishedError",
        "ForkHangError",
        "ForkRefusedError",
        "ForkServerWarning",
        "ForkWarning",
        "ForkliftError",
        "NameTakenError",
        "NoSpaceError",
        "NotAcrossNodesError",
        "NotAttachedError",
        "NotFoundError",
        "OverBudgetError",
        "PeerDiedError",
        "PoolStoppedError",
        "RefusedError",
        "StalledError",
        "VersionError",
        "WorkerDiedError",
    ),
    "fork": ("fork_report", "get_fork_policy", "register_fork_guard", "set_fork_policy"),
    "objects.frozen": ("FrozenDict", "FrozenList", "FrozenTuple", "freeze", "open_frozen", "share", "thaw"),
    "patch": ("install",),
    "telemetry": ("use_opentelemetry",),
    "objects.naming": ("Domain", "attach", "meet", "own_domain", "serve"),
    "multiprocessing._executor.executor": ("ProcessPoolExecutor",),
    "multiprocessing._pool.failures": ("ResultDecodingError", "TaskTimeoutError"),
    "multiprocessing._pool.insights": ("PoolInsights",),
    "objects.portable": ("PortableQueue", "Program", "inherited"),
}
_MODULE_OF = {name: module for module, names in _LATER.items() for name in names}
_MODULES = {*(each.partition(".")[0] for each in _LATER), "context", "multiprocessing", "ops", "reducers"}


if not TYPE_CHECKING:

    def __getattr__(name: str) -> "Any":
        if name in _MODULE_OF:
            module = "forklift." + _MODULE_OF[name]
            __import__(module)  # not importlib, which would be one more module for children to load
            value = getattr(_sys.modules[module], name)
            globals()[name] = value
            return value
        if name in _MODULES:
            __import__("forklift." + name)
            return _sys.modules["forklift." + name]
        raise AttributeError(f"module 'forklift' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF, *_MODULES})


if "FORKLIFT_DOMAIN" in _os.environ:
    # A forklift.Program or a C++ program started this one. Join its domain before this process makes its own.
    from forklift.objects.portable import _accept_invitation

    _accept_invitation()

__all__ = [
    "AbandonedLockWarning",
    "BatchFull",
    "Broadcast",
    "BrokenByForkError",
    "BrokenGroupError",
    "Carried",
    "CollectiveMismatchError",
    "ConversionError",
    "CorruptError",
    "DeviceError",
    "DeviceEvent",
    "Diagnosis",
    "DisconnectedError",
    "Domain",
    "FinishedError",
    "ForkHangError",
    "ForkRefusedError",
    "ForkServerWarning",
    "ForkWarning",
    "ForkliftError",
    "FrozenDict",
    "FrozenList",
    "FrozenTuple",
    "Latest",
    "NameTakenError",
    "NoSpaceError",
    "NotAcrossNodesError",
    "NotAttachedError",
    "NotFoundError",
    "OverBudgetError",
    "PeerDiedError",
    "PoolInsights",
    "PoolStoppedError",
    "PortableQueue",
    "ProcessPoolExecutor",
    "Program",
    "RefusedError",
    "ResultDecodingError",
    "StalledError",
    "Subscription",
    "TaskTimeoutError",
    "Tensor",
    "VersionError",
    "WorkerDiedError",
    "__version__",
    "attach",
    "audit",
    "configure",
    "empty",
    "fork_report",
    "freeze",
    "get_cmake_dir",
    "get_fork_policy",
    "inherited",
    "install",
    "label_of",
    "log_to",
    "meet",
    "open_frozen",
    "own_domain",
    "reap",
    "register_fork_guard",
    "serve",
    "set_budget",
    "set_fork_policy",
    "set_label",
    "share",
    "stats",
    "tensor",
    "thaw",
    "trim",
    "use_opentelemetry",
    "why",
    "zeros",
]

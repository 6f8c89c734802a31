"""Forklift: processes share tensors almost the way threads do.

    from forklift.multiprocessing import Process, Queue   # instead of multiprocessing

Arrays that pass through a queue travel through shared memory. ``forklift.Tensor`` is memory that processes
share: what one writes, the others see.
"""

import os as _os
import sys as _sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # as everywhere on the way of a child that is a fresh interpreter
    from typing import Any

    from forklift import multiprocessing as multiprocessing
    from forklift._core import (
        Tensor,
        __version__,
        audit,
        empty,
        reap,
        set_budget,
        stats,
        tensor,
        trim,
        zeros,
    )
    from forklift.adapters.carried import Carried
    from forklift.broadcast import Broadcast, Latest, Subscription
    from forklift.cmake import get_cmake_dir
    from forklift.errors import (
        AbandonedLockWarning,
        ConversionError,
        CorruptError,
        DisconnectedError,
        FinishedError,
        ForkliftError,
        NameTakenError,
        NoSpaceError,
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
    from forklift.frozen import FrozenDict, FrozenList, FrozenTuple, freeze, open_frozen, share, thaw
    from forklift.installing import install
    from forklift.meeting import Domain, attach, meet, own_domain, serve
    from forklift.multiprocessing.failures import ResultDecodingError, TaskTimeoutError
    from forklift.portable import PortableQueue, Program, inherited

# Imported when they are asked for: every child that is a fresh interpreter imports this package, and many use
# nothing of it, not even queues and locks, which need the C++ core.
_LATER = {
    "_core": (
        "Tensor",
        "__version__",
        "audit",
        "empty",
        "reap",
        "set_budget",
        "stats",
        "tensor",
        "trim",
        "zeros",
    ),
    "adapters.carried": ("Carried",),
    "broadcast": ("Broadcast", "Latest", "Subscription"),
    "cmake": ("get_cmake_dir",),
    "errors": (
        "AbandonedLockWarning",
        "ConversionError",
        "CorruptError",
        "DisconnectedError",
        "FinishedError",
        "ForkliftError",
        "NameTakenError",
        "NoSpaceError",
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
    "frozen": ("FrozenDict", "FrozenList", "FrozenTuple", "freeze", "open_frozen", "share", "thaw"),
    "installing": ("install",),
    "meeting": ("Domain", "attach", "meet", "own_domain", "serve"),
    "multiprocessing.failures": ("ResultDecodingError", "TaskTimeoutError"),
    "portable": ("PortableQueue", "Program", "inherited"),
}
_MODULE_OF = {name: module for module, names in _LATER.items() for name in names}
_MODULES = {*(each.partition(".")[0] for each in _LATER), "multiprocessing", "reducers"}


def _imported(name: str) -> "Any":
    __import__(name)  # importlib is one more module for children to read
    return _sys.modules[name]


if not TYPE_CHECKING:

    def __getattr__(name: str) -> "Any":
        if name in _MODULE_OF:
            value = getattr(_imported("forklift." + _MODULE_OF[name]), name)
            globals()[name] = value
            return value
        if name in _MODULES:
            return _imported("forklift." + name)
        raise AttributeError(f"module 'forklift' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF, *_MODULES})


if "FORKLIFT_DOMAIN" in _os.environ:
    # Another program started this one with queues: be of its domain before there is one of our own.
    from forklift.portable import _accept_invitation

    _accept_invitation()

__all__ = [
    "AbandonedLockWarning",
    "Broadcast",
    "Carried",
    "ConversionError",
    "CorruptError",
    "DisconnectedError",
    "Domain",
    "FinishedError",
    "ForkliftError",
    "FrozenDict",
    "FrozenList",
    "FrozenTuple",
    "Latest",
    "NameTakenError",
    "NoSpaceError",
    "NotAttachedError",
    "NotFoundError",
    "OverBudgetError",
    "PeerDiedError",
    "PoolStoppedError",
    "PortableQueue",
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
    "empty",
    "freeze",
    "get_cmake_dir",
    "inherited",
    "install",
    "meet",
    "open_frozen",
    "own_domain",
    "reap",
    "serve",
    "set_budget",
    "share",
    "stats",
    "tensor",
    "thaw",
    "trim",
    "zeros",
]

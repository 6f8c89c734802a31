"""Forklift: processes share tensors almost the way threads do.

    from forklift.multiprocessing import Process, Queue   # instead of multiprocessing

Arrays that pass through a queue travel through shared memory. ``forklift.Tensor`` is memory that processes
share: what one writes, the others see.
"""

import os as _os

from forklift._core import Tensor, __version__, audit, empty, reap, set_budget, stats, tensor, trim, zeros
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
    RefusedError,
    StalledError,
    VersionError,
)
from forklift.frozen import FrozenDict, FrozenList, FrozenTuple, freeze, open_frozen, share, thaw
from forklift.installing import install
from forklift.meeting import Domain, attach, meet, own_domain, serve
from forklift.portable import PortableQueue, Program, _accept_invitation, inherited

if "FORKLIFT_DOMAIN" in _os.environ:
    # Another program started this one with queues: be of its domain before there is one of our own.
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
    "PortableQueue",
    "Program",
    "RefusedError",
    "StalledError",
    "Subscription",
    "Tensor",
    "VersionError",
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

"""CPython's own tests of locks, unmodified, against ours: `cpython_locks.py METHOD`.

What the test module knows of multiprocessing is replaced by our package before its classes are made. Children
that are fresh interpreters import this file as their main module and so do the same.
"""

from __future__ import annotations

import os
import sys
import unittest
from typing import Any

import forklift.multiprocessing as ours
import forklift.multiprocessing.process
import forklift.multiprocessing.util  # noqa: F401
from forklift.multiprocessing import heap, synchronize
from test import _test_multiprocessing as theirs  # type: ignore[import-not-found,unused-ignore]

WANTED = ("_TestLock", "_TestSemaphore", "_TestCondition", "_TestEvent", "_TestBarrier")
METHOD = os.environ.setdefault("FORKLIFT_TEST_METHOD", sys.argv[1] if len(sys.argv) > 1 else "fork")


def use_ours() -> None:
    for name, mine in vars(theirs.ProcessesMixin).copy().items():
        if not name.startswith("_") and hasattr(ours, name) and mine is not None:
            what = getattr(ours, name)
            setattr(theirs.ProcessesMixin, name, what if name == "Process" else staticmethod(what))
    theirs.multiprocessing = ours
    theirs.multiprocessing.heap = heap
    theirs.multiprocessing.synchronize = synchronize


use_ours()
_found: dict[str, Any] = {"__name__": __name__}
theirs.install_tests_in_module_dict(_found, METHOD)
for _name, _thing in _found.items():
    _wanted = _name.endswith(tuple(name.removeprefix("_") for name in WANTED))
    if _wanted or not (isinstance(_thing, type) and issubclass(_thing, unittest.TestCase)):
        globals().setdefault(_name, _thing)

if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)

"""CPython's own tests of connections and waiting, unmodified, against ours: `cpython_connections.py METHOD`.

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
from forklift.multiprocessing import connection
from test import _test_multiprocessing as theirs  # type: ignore[import-not-found,unused-ignore]

WANTED = (
    "_TestConnection",
    "_TestListener",
    "_TestListenerClient",
    "_TestPoll",
    "_TestPollEintr",
    "_TestPicklingConnections",
    "OtherTest",
    "TestWait",
)
METHOD = os.environ.setdefault("FORKLIFT_TEST_METHOD", sys.argv[1] if len(sys.argv) > 1 else "fork")


def use_ours() -> None:
    for name, mine in vars(theirs.ProcessesMixin).copy().items():
        if not name.startswith("_") and hasattr(ours, name) and mine is not None:
            what = getattr(ours, name)
            setattr(theirs.ProcessesMixin, name, what if name == "Process" else staticmethod(what))
    theirs.ProcessesMixin.connection = connection
    theirs.multiprocessing = ours
    theirs.wait = connection.wait


use_ours()
_found: dict[str, Any] = {"__name__": __name__}
theirs.install_tests_in_module_dict(_found, METHOD)
for _name, _thing in _found.items():
    _plain = _name.removeprefix("WithProcesses")
    _wanted = _plain in WANTED or "_" + _plain in WANTED
    if _wanted or not (isinstance(_thing, type) and issubclass(_thing, unittest.TestCase)):
        globals().setdefault(_name, _thing)

if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)

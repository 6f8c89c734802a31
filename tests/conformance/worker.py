"""Runs CPython's own tests in the interpreter under test and says what became of each: `worker.py SUITE`.

    worker.py SUITE --list                     {"module.Class": ["test_a", ...], ...} on stdout
    worker.py SUITE --results FD < names       one JSON object a line on FD, for each test named on stdin

With --limit the tests' own "long time-out" (five minutes) ends well before a case is killed, as it does with
--timeout in CPython's own runner. Until 3.12 WithThreadsTestPool.test_terminate needs that: it has threads of
the standard library sleep so long, and waits for those that had begun before it could stop them.

Knows only the standard library. Children started as fresh interpreters import this file as their main module.
"""

import argparse
import faulthandler
import importlib
import json
import os
import pkgutil
import sys
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
METHODS = ("fork", "spawn", "forkserver")


def modules_of(suite):
    """The test modules of a suite, imported."""
    if suite in METHODS:
        return [importlib.import_module("test_multiprocessing_" + suite)]
    if suite == "main":
        return [importlib.import_module("test.test_multiprocessing_main_handling")]
    found = importlib.import_module("test.test_concurrent_futures")
    if not hasattr(found, "__path__"):
        return [found]
    names = [each.name for each in pkgutil.iter_modules(found.__path__) if each.name.startswith("test_")]
    return [importlib.import_module(found.__name__ + "." + name) for name in names]


def cases_of(suite):
    """{"module.Class": {"test_a": test, ...}}"""
    found = {}
    loader = unittest.TestLoader()
    for module in modules_of(suite):
        for name, cls in sorted(vars(module).items()):
            if not (isinstance(cls, type) and issubclass(cls, unittest.TestCase)):
                continue
            if suite == "futures" and "Process" not in name:
                continue
            tests = loader.loadTestsFromTestCase(cls)
            # loadTests makes a runTest of a class without tests.
            each = {test._testMethodName: test for test in tests if test._testMethodName != "runTest"}
            if each and cls.__module__ == module.__name__:
                found[module.__name__ + "." + name] = each
    return found


class Result(unittest.TestResult):
    """Tells what happens as it happens."""

    def __init__(self, stream, names):
        super().__init__()
        self.stream = stream
        self.names = names
        self.outcome = None

    def say(self, **what):
        self.stream.write(json.dumps(what) + "\n")
        self.stream.flush()

    def name_of(self, test):
        return self.names.get(id(test), str(test))

    def startTest(self, test):
        super().startTest(test)
        self.outcome = ("passed", "")
        self.began = time.monotonic()
        self.say(begins=self.name_of(test))

    def stopTest(self, test):
        super().stopTest(test)
        outcome, why = self.outcome
        seconds = time.monotonic() - self.began
        self.say(ends=self.name_of(test), outcome=outcome, why=why, seconds=seconds)
        self.outcome = None

    def settle(self, test, outcome, why):
        if self.outcome is None:  # setUpClass, setUpModule, tearDownModule
            self.say(fixture=self.name_of(test), outcome=outcome, why=why)
        elif self.outcome[0] != "failed":
            self.outcome = (outcome, why)

    def addError(self, test, err):
        super().addError(test, err)
        self.settle(test, "failed", self.errors[-1][1])

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.settle(test, "failed", self.failures[-1][1])

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.settle(test, "failed", (self.failures or self.errors)[-1][1])

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.settle(test, "skipped", reason)

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.settle(test, "failed", "unexpected success")


def run(suite, results):
    wanted = json.load(sys.stdin)
    cases = cases_of(suite)
    names = {}
    tests = unittest.TestSuite()
    for name in wanted:
        cls, _, method = name.rpartition(".")
        test = cases[cls][method]
        names[id(test)] = name
        tests.addTest(test)
    tests.run(Result(results, names))


def is_replaced():
    import multiprocessing.queues

    return multiprocessing.queues.Queue.__module__.startswith("forklift.")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("suite", choices=[*METHODS, "main", "futures"])
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--results", type=int)
    parser.add_argument("--limit", type=float, help="seconds that a case may take")
    parser.add_argument(
        "--control", action="store_true", help="the standard library's own modules are expected"
    )
    options = parser.parse_args()
    sys.path.insert(0, os.path.join(HERE, "modules"))
    if is_replaced() == options.control:
        sys.exit("multiprocessing is " + ("" if options.control else "not ") + "replaced here")
    if options.list:
        print(json.dumps({name: list(tests) for name, tests in cases_of(options.suite).items()}))
        return
    faulthandler.enable()
    if options.limit is not None:
        support = importlib.import_module("test.support")
        support.LONG_TIMEOUT = min(support.LONG_TIMEOUT, options.limit / 4)
    with open(options.results, "w") as results:
        os.set_inheritable(options.results, False)
        run(options.suite, results)


if __name__ == "__main__":
    main()

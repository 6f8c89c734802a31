"""A plugin of pytest: writes each test's outcome into a file as soon as it is known, a line of JSON each.

A run that is ended in the middle of a test has thereby told which one it was. Comes from a folder of its own,
the only one of ours that is on the path of a suite.
"""

import json
import os


class _Outcomes:
    def __init__(self, path):
        self._path, self._pid = path, os.getpid()

    def _say(self, **what):
        if os.getpid() == self._pid:  # not in a child that a test has forked
            with open(self._path, "a") as file:
                file.write(json.dumps(what) + "\n")

    def pytest_runtest_logstart(self, nodeid, location):
        self._say(begins=nodeid)

    def pytest_runtest_logreport(self, report):
        if report.when != "call" and report.outcome == "passed":
            return
        outcome = report.outcome
        if hasattr(report, "wasxfail"):
            outcome = "xfailed" if outcome == "skipped" else "xpassed"
        elif outcome == "failed" and report.when != "call":
            outcome = "error"
        self._say(ends=report.nodeid, outcome=outcome, why=str(report.longrepr or "")[-4000:])

    def pytest_collectreport(self, report):
        if report.failed:
            self._say(ends=report.nodeid, outcome="error", why=str(report.longrepr)[-4000:])

    def pytest_sessionfinish(self, session, exitstatus):
        self._say(finished=int(exitstatus))


def pytest_configure(config):
    if "TORCH_SHARING_STRATEGY" in os.environ:  # for the suite of torch
        import torch.multiprocessing

        torch.multiprocessing.set_sharing_strategy(os.environ["TORCH_SHARING_STRATEGY"])
    config.pluginmanager.register(_Outcomes(os.environ["FORKLIFT_OUTCOMES"]))

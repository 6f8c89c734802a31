"""Starts a child by fork: the standard library's Popen, which first makes sure that there is a domain."""

from __future__ import annotations

import sys
from multiprocessing import popen_fork as _std

from forklift import _core
from forklift.multiprocessing._start.ending import KnowsEnd
from forklift.multiprocessing._start.executors import report_last_result
from forklift.multiprocessing._start.launch import NamedProcess, ensure_domain
from forklift.multiprocessing._start.lifeline import ProcessWithLifeline, lifeline_for
from forklift.multiprocessing._start.options import take_options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Popen"]


class Popen(KnowsEnd, _std.Popen):
    # Of a child that was started with a time-out: its StackFile while it is watched, the error if it hung.
    _stacks: Any = None
    hang: Any = None

    def _launch(self, process_obj: Any) -> None:
        timeout, policy = take_options(process_obj)
        # Without threads and guards nothing is imported for the examination.
        if _core._guard.needs_examination() or "forklift.fork.policy" in sys.modules:
            from forklift.fork.policy import Checked, check_fork

            check_fork(policy)
            with Checked():
                self._launch_checked(process_obj, timeout)
        else:
            self._launch_checked(process_obj, timeout)

    def _launch_checked(self, process_obj: Any, timeout: float | None) -> None:
        ensure_domain()
        # os.fork() does the same, but by then there are pipes, which a refusal would leave.
        _core._runtime.prepare_fork()
        report_last_result(process_obj)
        if timeout is not None:
            from forklift.fork.hang import StackFile, WatchedProcess

            self._stacks = StackFile()
            try:
                with self._stacks:
                    self._launch_with_lifeline(process_obj, WatchedProcess(process_obj, self._stacks))
            except BaseException:
                self._stacks.close()
                raise
        else:
            self._launch_with_lifeline(process_obj, process_obj)

    def _launch_with_lifeline(self, process_obj: Any, started: Any) -> None:
        line = lifeline_for(process_obj)
        begun = started if line is None else ProcessWithLifeline(started, line)
        super()._launch(NamedProcess(process_obj, begun))  # type: ignore[misc]
        self._log_start(process_obj)


def __getattr__(name: str) -> Any:
    return getattr(_std, name)

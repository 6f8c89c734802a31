"""What the Popen of each start method does when it waits for its child, and once the child has ended."""

from __future__ import annotations

import os

from forklift import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["KnowsEnd", "knowing_end"]


class KnowsEnd:
    """Put before the standard library's Popen: waits are recorded, starts and ends logged, deaths reaped."""

    pid: int
    returncode: int | None
    _logged_name = ""

    def wait(self, timeout: float | None = None) -> int | None:
        wait = super().wait  # type: ignore[misc]
        if self.returncode is not None or timeout == 0:
            code: int | None = wait(timeout)
            return code
        with _core.ProcessWait(self.pid, timeout):
            code = wait(timeout)
        return code

    def poll(self, flag: int = os.WNOHANG) -> int | None:
        known = self.returncode
        code: int | None = super().poll(flag)  # type: ignore[misc]
        if known is None and code is not None:
            self._note_end()
            if _core.event_log_on():
                _core.log_end(self.pid, self._logged_name, code)
            # Give back what the child held now, and not only when some process needs memory.
            _core.reap()
        return code

    def _note_end(self) -> None:
        """For a start method that keeps count of its children."""

    def _log_start(self, process_obj: Any) -> None:
        if _core.event_log_on():
            self._logged_name = process_obj.name
            _core.log_start(self.pid, process_obj.name)


def knowing_end(popen: Any) -> Any:
    """The standard library's class with KnowsEnd before it.

    The class itself if KnowsEnd is among its bases: where Forklift is installed, its popen_fork is the
    standard library's, from which the others derive.
    """
    return popen if issubclass(popen, KnowsEnd) else type("Popen", (KnowsEnd, popen), {})

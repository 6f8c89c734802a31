"""Starts a child from the fork server: the standard library's Popen, with an invitation for the child."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from multiprocessing import forkserver as _std_forkserver
from multiprocessing import popen_forkserver as _std

from forklift import _core, child_boot
from forklift.multiprocessing._start.invitation import invitation_for
from forklift.multiprocessing._start.launch import PackedProcess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Popen"]

# Without this each child would import these modules itself. None makes a domain, a thread or a descriptor.
_PRELOADED = ("forklift.multiprocessing.queues", "forklift.multiprocessing.synchronize")


@contextlib.contextmanager
def _preloading() -> Iterator[None]:
    """Have a fork server that starts within this context load the modules that its children need.

    The program's own list of modules stays as it is: the program may read it, or set another, at any time.
    """
    server: Any = _std_forkserver._forkserver
    wanted = server._preload_modules
    if server._forkserver_pid is not None:
        yield
        return
    tasks = {task.__module__: None for task in child_boot.tasks()}
    more = server._preload_modules = [*wanted, *_PRELOADED, *tasks]
    try:
        yield
    finally:
        if server._preload_modules is more:
            server._preload_modules = wanted


class Popen(_std.Popen):
    def _launch(self, process_obj: Any) -> None:
        invitation = invitation_for(self)
        try:
            with _preloading():
                super()._launch(PackedProcess(process_obj, invitation))  # type: ignore[misc]
        finally:
            invitation.close()

    def poll(self, flag: int = os.WNOHANG) -> int | None:
        known = self.returncode
        code: int | None = super().poll(flag)
        if known is None and code is not None:
            _core.reap()
        return code


def __getattr__(name: str) -> Any:
    return getattr(_std, name)

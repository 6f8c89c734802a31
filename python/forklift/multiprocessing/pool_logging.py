"""Log records of a pool's workers, handled in the process that made the pool."""

from __future__ import annotations

import logging
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Log"]


class Log:
    """A queue of log records and the thread that hands them to this process's loggers."""

    def __init__(self, ctx: Any) -> None:
        from forklift.multiprocessing.queues import Queue

        self._queue: Queue[Any] = Queue(ctx=ctx)
        self._thread = threading.Thread(target=self._run, name="PoolLog", daemon=True)
        self._thread.start()

    @property
    def plan(self) -> Any:
        """What workers need: where records go, and from which level on."""
        return (self._queue, logging.getLogger().getEffectiveLevel())

    def _run(self) -> None:
        while (record := self._queue.get()) is not None:
            logger = logging.getLogger(record.name)
            if record.levelno >= logger.getEffectiveLevel():
                logger.handle(record)

    def close(self) -> None:
        """What has been logged is handled, then the thread ends."""
        self._queue.put(None)
        if self._thread is not threading.current_thread():
            self._thread.join()

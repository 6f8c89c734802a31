"""Log records of a pool's workers, handled in the process that made the pool."""

from __future__ import annotations

import logging
import logging.handlers
import threading
from multiprocessing import util as _std_util

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Log", "send_records"]


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
        """End the thread once it has handled all records."""
        self._queue.put(None)
        if self._thread is not threading.current_thread():
            self._thread.join()


def send_records(queue: Any, level: int) -> None:
    """In a worker: its loggers' records go to the pool's process, and nowhere else.

    A forked worker has all of its parent's handlers, a fresh interpreter those that its main module makes;
    the pool's process has them, too, and a record would be handled twice. Only the loggers whose records do
    not go up to the root's need a handler of their own.
    """
    handler = logging.handlers.QueueHandler(queue)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for logger in list(root.manager.loggerDict.values()):
        # multiprocessing's own says what happens in the worker itself, to the very end.
        if isinstance(logger, logging.Logger) and logger.name != _std_util.LOGGER_NAME:
            logger.handlers[:] = [] if logger.propagate else [handler]

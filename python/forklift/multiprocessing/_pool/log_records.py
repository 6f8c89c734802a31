"""Sends the log records of a pool's workers to the process that made the pool, which handles them."""

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
        """What workers need: (the queue for their records, the lowest level that is sent)."""
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
    """In a worker: send its loggers' records to the pool's process, and nowhere else.

    A forked worker has all of its parent's handlers, and a fresh interpreter has those that its main module
    makes. The pool's process has them, too, so each record would be handled twice. Only loggers that do not
    propagate to the root logger need a handler of their own.
    """
    handler = logging.handlers.QueueHandler(queue)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for logger in list(root.manager.loggerDict.values()):
        # multiprocessing's own logger keeps its handlers: it logs what happens in the worker, up to its exit.
        if isinstance(logger, logging.Logger) and logger.name != _std_util.LOGGER_NAME:
            logger.handlers[:] = [] if logger.propagate else [handler]

"""Log records of a node's workers: taken on the node, handled by the driver's loggers."""

from __future__ import annotations

import logging
import threading
from typing import Any

__all__ = ["Records", "handle_records"]


class Records:
    """The queue of the workers' log records, and the thread that takes them."""

    def __init__(self, context: Any, take: Any) -> None:
        self.queue: Any = context.Queue()
        self._take = take
        self._thread = threading.Thread(target=self._run, name="NodePoolLog", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while (record := self.queue.get()) is not None:
            self._take(record)

    def close(self) -> None:
        self.queue.put(None)
        self._thread.join()


def handle_records(records: list[Any]) -> None:
    """Hand log records of workers to this process's loggers."""
    for record in records:
        logger = logging.getLogger(record.name)
        if record.levelno >= logger.getEffectiveLevel():
            logger.handle(record)

"""Functions that the processes of test_redelivery run."""

from __future__ import annotations

import signal
import threading
from typing import Any


def take_and_wait(queue: Any, count: int, taken: Any) -> None:
    """Get some objects, tell which, and wait to be killed."""
    for _ in range(count):
        taken.put(queue.get())
    while True:
        signal.pause()


def take_and_leave(queue: Any, taken: Any) -> None:
    """Get an object and end without task_done()."""
    taken.put(queue.get())


def work(queue: Any, done: Any) -> None:
    """Do what comes until None comes."""
    while True:
        item = queue.get()
        if item is not None:
            done.put(item)
        queue.task_done()
        if item is None:
            return


def modify_and_wait(queue: Any, taken: Any) -> None:
    """Write into an array that was got, and wait to be killed."""
    array = queue.get()
    array[:] = -1
    taken.put(None)
    while True:
        signal.pause()


def not_my_claim(queue: Any, answers: Any) -> None:
    """A forked child has its parent's queue object, and none of its claims."""
    answers.put(_outcome(queue.task_done))
    answers.put(_outcome(queue.give_back))


def claims_of_threads(queue: Any) -> list[str]:
    """Get one object here and one in another thread; each thread ends its own."""
    outcomes: list[str] = []

    def other() -> None:
        outcomes.append(_outcome(queue.task_done))
        outcomes.append(queue.get())
        queue.task_done()

    first = queue.get()
    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    queue.task_done()
    return [first, *outcomes]


def _outcome(call: Any) -> str:
    try:
        call()
    except ValueError:
        return "ValueError"
    return "done"


class CannotBeUnpickled:
    """Its unpickling raises, as that of an object whose class is missing."""

    def __reduce__(self) -> Any:
        return _raise, ()


def _raise() -> None:
    raise RuntimeError("not here")

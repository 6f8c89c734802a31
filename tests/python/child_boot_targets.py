"""Functions of children that use Forklift late or not at all. So this module must not import Forklift."""

from __future__ import annotations

import os
import resource
import sys
import time
from typing import Any


def say_what_is_loaded(answers: Any) -> None:
    answers.send("forklift._core" in sys.modules)


def say_the_domain(answers: Any) -> None:
    from forklift import _core

    answers.send((_core.has_domain(), _core.domain_id()))


def fork_first(answers: Any) -> None:
    child = os.fork()
    from forklift import _core

    answers.send(_core.domain_id())
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


def close_everything_first(answers: Any) -> None:
    keep = answers.fileno()
    os.closerange(3, keep)
    os.closerange(keep + 1, 4096)
    # Other files have these descriptors' numbers now.
    others = [os.open("/dev/null", os.O_RDONLY) for _ in range(30)]
    import forklift.multiprocessing
    from forklift import _core

    queue = forklift.multiprocessing.SimpleQueue()
    queue.put("one")
    intact = all(os.path.samestat(os.fstat(fd), os.stat("/dev/null")) for fd in others)
    answers.send((_core.domain_id(), queue.get(), intact))


def have_no_room(answers: Any) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    import forklift

    said = []
    for _ in range(2):
        try:
            forklift.zeros([8])
        except Exception as error:
            said.append(f"{type(error).__name__}: {error}")
    answers.send(said)


def hold_and_exit(lock: Any) -> None:
    lock.acquire()


def become_another_program(answers: Any) -> None:
    os.dup2(answers.fileno(), 1)
    os.execv("/bin/sh", ["sh", "-c", "echo; exec sleep 60"])


def wait_for(path: str) -> None:
    while not os.path.exists(path):
        time.sleep(0.01)

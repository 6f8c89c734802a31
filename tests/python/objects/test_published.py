"""Queues, locks, broadcasts under a name in a domain: each kind, opened again here and in children."""

from __future__ import annotations

import queue as std_queue
import threading
from pathlib import Path
from typing import Any

import forklift
import forklift.multiprocessing as mp
import numpy as np
import pytest
import support


def test_every_queue_and_lock_can_be_published() -> None:
    domain = forklift.own_domain()
    assert (domain.name, domain.serving) == ("", False)
    lock = mp.RLock()
    things: dict[str, Any] = {
        "portable": forklift.PortableQueue(3),
        "queue": mp.Queue(),
        "joinable": mp.JoinableQueue(),
        "simple": mp.SimpleQueue(),
        "lock": mp.Lock(),
        "rlock": lock,
        "semaphore": mp.Semaphore(2),
        "recovering": mp.Semaphore(2, recover=True),
        "bounded": mp.BoundedSemaphore(2),
        "event": mp.Event(),
        "barrier": mp.Barrier(1),
        "broadcast": forklift.Broadcast(keep=1),
        "latest": forklift.Latest(),
        "condition": mp.Condition(lock),
    }
    for name, thing in things.items():
        domain.publish(name, thing)
    assert domain.published().keys() == things.keys()
    with pytest.raises(TypeError, match="needs its lock"):
        domain.open("condition")
    again = {name: domain.open(name, lock=lock) for name in things}
    for name, thing in things.items():
        assert type(again[name]) is type(thing), name
    for name in ("portable", "queue", "joinable"):
        things[name].put({"a": [1, name]})
        assert again[name].get(timeout=5) == {"a": [1, name]}
    things["simple"].put("x")
    assert again["simple"].get() == "x"
    for _ in range(3):
        again["portable"].put_nowait(0)
    with pytest.raises(std_queue.Full):
        things["portable"].put_nowait(0)
    while not again["portable"].empty():
        things["portable"].get()
    again["joinable"].task_done()
    things["joinable"].join()
    for name in ("lock", "rlock", "semaphore", "recovering", "bounded"):
        assert things[name].acquire()
        again[name].release()
    with pytest.raises(ValueError, match="released too many times"):
        again["bounded"].release()
    again["event"].set()
    assert things["event"].is_set()
    again["broadcast"].put([1, 2])
    assert things["broadcast"].subscribe(oldest=True).get(5) == [1, 2]
    things["latest"].put({"a": 1})
    assert (again["latest"].get(5), again["latest"].version) == ({"a": 1}, 1)
    assert again["barrier"].parties == 1
    assert again["barrier"].wait(5) == 0
    woken = []
    ready = threading.Event()

    def wait() -> None:
        with lock:
            ready.set()
            woken.append(things["condition"].wait(support.DEADLINE))

    waiter = threading.Thread(target=wait)
    waiter.start()
    ready.wait()
    with lock:
        again["condition"].notify()
    waiter.join()
    assert woken == [True]
    for name in things:
        assert domain.unpublish(name)


def test_children_find_what_is_published(ctx: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with forklift.serve("x") as domain:
        queue = forklift.PortableQueue()
        domain.publish("numbers", queue)
        process = ctx.Process(target=_put_published)
        process.start()
        assert queue.get(timeout=support.DEADLINE) == [False, 42]
        process.join(support.DEADLINE)
        assert process.exitcode == 0
        assert domain.serving
        domain.unpublish("numbers")


def _put_published() -> None:
    domain = forklift.own_domain()
    domain.open("numbers").put([domain.serving, 42])


def test_a_tensor_is_the_same_memory_for_all() -> None:
    domain = forklift.own_domain()
    weights = forklift.zeros((2, 3), "float32")
    weights.numpy()[:] = np.arange(6).reshape(2, 3)
    domain.publish("weights", weights)
    assert domain.published()["weights"] == "tensor"
    process = mp.Process(target=_double_weights)
    process.start()
    process.join()
    assert process.exitcode == 0
    assert domain.open("weights").tolist() == [[0, 2, 4], [6, 8, 10]]
    assert weights.tolist() == [[0, 2, 4], [6, 8, 10]]
    del weights
    with pytest.raises(forklift.errors.NameTakenError):
        domain.publish("weights", forklift.zeros(2))
    assert domain.open_or_create("weights", lambda: forklift.zeros(2)).shape == (2, 3)
    kept = domain.open("weights")
    assert domain.unpublish("weights")
    assert kept.tolist() == [[0, 2, 4], [6, 8, 10]]
    with pytest.raises(TypeError, match="Tensor of forklift can"):
        domain.publish("array", np.zeros(3))


def _double_weights() -> None:
    weights = forklift.own_domain().open("weights").numpy()
    weights *= 2

"""Labels of objects, and what is chosen before the shared memory is made."""

from __future__ import annotations

import subprocess
import sys

import forklift
import pytest
from forklift import multiprocessing as mp


@pytest.mark.parametrize(
    "make",
    [
        mp.Queue,
        mp.JoinableQueue,
        mp.SimpleQueue,
        forklift.PortableQueue,
        mp.Lock,
        mp.RLock,
        mp.Semaphore,
        mp.Event,
        lambda: mp.Barrier(2),
        mp.Condition,
        forklift.Broadcast,
        forklift.Latest,
    ],
)
def test_objects_have_labels(make):
    one, other = make(), make()
    assert forklift.label_of(one) == ""
    forklift.set_label(one, "für Menschen")
    assert forklift.label_of(one) == "für Menschen"
    assert forklift.label_of(other) == ""
    forklift.set_label(one, "")
    assert forklift.label_of(one) == ""


def test_a_published_object_is_called_as_it_is_published():
    queue = mp.Queue()
    domain = forklift.own_domain()
    domain.publish("test-labels", queue)
    try:
        assert forklift.label_of(queue) == "test-labels"
        assert forklift.label_of(domain.open("test-labels")) == "test-labels"
    finally:
        domain.unpublish("test-labels")


def _rename(queue):
    assert forklift.label_of(queue) == "jobs"
    forklift.set_label(queue, "renamed")


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_other_processes_see_it(method):
    context = mp.get_context(method)
    queue = context.Queue()
    forklift.set_label(queue, "jobs")
    child = context.Process(target=_rename, args=(queue,))
    child.start()
    child.join()
    assert child.exitcode == 0
    assert forklift.label_of(queue) == "renamed"


def test_what_is_no_label():
    queue = mp.Queue()
    with pytest.raises(ValueError, match="65 bytes"):
        forklift.set_label(queue, "x" * 65)
    with pytest.raises(ValueError, match="control character"):
        forklift.set_label(queue, "two\nlines")
    with pytest.raises(TypeError):
        forklift.set_label([], "a list")


def _run(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.strip()


def test_a_budget_and_a_reservation_before_the_memory_is_made():
    program = """
import forklift
forklift.configure(reservation=1 << 30, budget=64 << 20, huge_pages=True)
queue = forklift.PortableQueue(1)
maps = open("/proc/self/smaps").read().split("forklift-data")
sizes = [int(part.split("Size:")[1].split()[0]) for part in maps[1:]]
print(forklift.stats()["budget_bytes"], max(sizes))
"""
    assert _run(program) == f"{64 << 20} {1 << 20}"


def test_it_comes_too_late():
    program = """
import forklift
queue = forklift.PortableQueue(1)
try:
    forklift.configure(budget=1 << 20)
except ValueError as error:
    print(error)
"""
    assert "before the first queue" in _run(program)

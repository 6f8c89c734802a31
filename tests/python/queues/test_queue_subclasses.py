"""Queues of a program's own class: with private hooks they are the standard library's, the control."""

from __future__ import annotations

import asyncio
import multiprocessing
import threading
from typing import Any

import forklift.multiprocessing
import pytest
import queue_kinds as kinds
import support

LIBRARIES = {"Std": multiprocessing, "Our": forklift.multiprocessing}


@pytest.fixture(params=["Std fork", "Std spawn", "Our fork", "Our spawn", "Our forkserver"])
def each(request: pytest.FixtureRequest) -> tuple[str, Any]:
    """(prefix of the classes, context) of either library."""
    prefix, method = request.param.split()
    return prefix, LIBRARIES[prefix].get_context(method)  # type: ignore[attr-defined]


def make(each: tuple[str, Any], name: str, **options: Any) -> Any:
    prefix, context = each
    return getattr(kinds, prefix + name)(ctx=context, **options)


def through_a_child(context: Any, inbox: Any, outbox: Any, items: list[Any]) -> list[Any]:
    child = context.Process(target=kinds.forward, args=(inbox, outbox))
    child.start()
    for item in items:
        inbox.put(item)
    found = [outbox.get() for _ in items]
    child.join(support.DEADLINE)
    assert child.exitcode == 0
    return found


def finish(*queues: Any) -> None:
    for queue in queues:
        queue.close()
        if hasattr(queue, "join_thread"):
            queue.join_thread()


def test_a_feeder_of_its_own(each: Any) -> None:
    inbox, outbox = make(each, "Fed"), make(each, "Fed", maxsize=5)
    assert (inbox.resets, inbox.empty(), inbox.qsize(), outbox.full()) == (1, True, 0, False)
    found = through_a_child(each[1], inbox, outbox, ["a", b"x" * 100_000, kinds.DONE])
    assert found == [("fed", ("fed", each)) for each in ("a", b"x" * 100_000, kinds.DONE)]
    assert "ItsFeeder" in {thread.name for thread in threading.enumerate()}
    assert isinstance(inbox, type(each[1].Queue()))
    finish(inbox, outbox)
    with pytest.raises(ValueError, match="is closed"):
        inbox.put(1)


def test_a_joinable_one(each: Any) -> None:
    inbox, outbox = make(each, "FedJoinable"), make(each, "Fed")
    assert through_a_child(each[1], inbox, outbox, [kinds.DONE]) == [("fed", ("fed", kinds.DONE))]
    inbox.task_done()
    inbox.join()
    with pytest.raises(ValueError, match="too many times"):
        inbox.task_done()
    finish(inbox, outbox)


def test_a_put_that_works_on_the_buffer(each: Any) -> None:
    queue, outbox = make(each, "Front"), each[1].Queue()
    with queue._notempty:  # so that the feeder does not take the first one before the second is there
        putting = [threading.Thread(target=queue.put, args=(item,)) for item in (1, 2)]
        for thread in putting:
            thread.start()
    for thread in putting:
        thread.join()
    assert sorted([queue.get(), queue.get()]) == [1, 2]
    assert through_a_child(each[1], queue, outbox, [kinds.DONE]) == [kinds.DONE]
    finish(queue, outbox)


def test_a_simple_one(each: Any) -> None:
    inbox, outbox = make(each, "Bytes"), make(each, "Bytes")
    assert inbox.empty()
    found = through_a_child(each[1], inbox, outbox, ["a", kinds.DONE])
    assert found == [("bytes", ("bytes", "a")), ("bytes", ("bytes", kinds.DONE))]
    inbox.close()
    outbox.close()
    with pytest.raises(OSError, match="closed"):
        inbox.put(1)


def test_a_state_with_the_base_classs_inside_stays_ours(each: Any) -> None:
    inbox, outbox = make(each, "Numbered"), make(each, "Numbered")
    inbox.number = 8
    assert through_a_child(each[1], inbox, outbox, ["a", kinds.DONE]) == ["a", kinds.DONE]
    inbox.put(3)
    support.until(lambda: not inbox.empty(), "a message")
    assert inbox.get_nowait() == 3
    finish(inbox, outbox)
    assert not kinds.OurNumbered._standard
    assert kinds.OurFed._standard
    assert kinds.OurFront._standard
    assert kinds.OurBytes._standard


def test_subclasses_of_such_a_class_are_such(each: Any) -> None:
    prefix, context = each
    derived = type("Derived", (getattr(kinds, prefix + "Fed"),), {})
    queue = derived(ctx=context)
    queue.put(1)
    assert queue.get() == ("fed", 1)
    finish(queue)


def test_what_the_standard_librarys_queue_has_not() -> None:
    context: Any = forklift.multiprocessing.get_context("fork")
    with pytest.raises(TypeError, match="strict="):
        kinds.OurFront(ctx=context, strict=True)
    queue = kinds.OurFront(ctx=context)
    with pytest.raises(TypeError, match="relies on the standard library's queue"):
        queue.loan((3,))
    queue.put(1)
    for waited in (queue, queue._reader):
        assert forklift.multiprocessing.connection.wait([waited], support.DEADLINE) == [waited]
    assert queue.get() == 1
    finish(queue)


def test_a_killed_reader_frees_the_others() -> None:
    """The standard library's queue, but over our locks: whoever is killed inside of one leaves it."""
    context: Any = forklift.multiprocessing.get_context("fork")
    queue, ready = kinds.OurFed(ctx=context), context.Event()
    child = context.Process(target=kinds.die_with_the_reader, args=(queue, ready))
    child.start()
    assert ready.wait(support.DEADLINE)
    support.until_asleep(child.pid)  # in get, with the lock
    child.kill()
    child.join()
    queue.put(1)
    with pytest.warns(forklift.AbandonedLockWarning):
        assert queue.get(timeout=support.DEADLINE) == ("fed", 1)
    finish(queue)


@pytest.mark.parametrize("asked", [{}, {"as_": "numpy"}])
def test_a_get_without_our_newer_keywords(asked: dict[str, str]) -> None:
    """What a class's own get() does not know is not given to it, unless the program asks for it."""

    class WithoutCopy(forklift.multiprocessing.queues.Queue):  # type: ignore[type-arg]
        def get(self, block: bool = True, timeout: float | None = None, **known: Any) -> Any:
            assert known == asked
            return super().get(block, timeout)

    queue = WithoutCopy(ctx=forklift.multiprocessing.get_context())
    for value in (1, 2):
        queue.put(value)
    assert queue.get_nowait(**asked) == 1
    assert asyncio.run(queue.aget(**asked)) == 2
    finish(queue)

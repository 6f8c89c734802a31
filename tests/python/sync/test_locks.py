"""Lock, RLock, Semaphore, BoundedSemaphore: as the standard library's, which is the control."""

from __future__ import annotations

import inspect
import math
import multiprocessing.synchronize
import pickle
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from typing import Any

import forklift
import forklift.multiprocessing.synchronize
import lock_targets
import pytest
import support

NAMES = ("Lock", "RLock", "Semaphore", "BoundedSemaphore", "Condition", "Event", "Barrier")


def outcome(action: Any) -> tuple[str, Any]:
    """What an action answers or raises, in words that two libraries have in common."""
    try:
        return ("answers", action())
    except Exception as error:
        return (type(error).__name__, str(error))


def in_thread(action: Any) -> Any:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(outcome(action)), name="Other")
    thread.start()
    thread.join()
    return found[0]


def both(action: Any) -> Any:
    """The action on either library's fork context; they must agree."""
    theirs = action(multiprocessing.get_context("fork"))
    ours = action(forklift.multiprocessing.get_context("fork"))
    assert ours == theirs
    return ours


def test_names_and_signatures() -> None:
    theirs, ours = multiprocessing.synchronize, forklift.multiprocessing.synchronize
    assert set(theirs.__all__) <= {*ours.__all__, "Barrier"}
    for name in NAMES:
        mine, std = getattr(ours, name), getattr(theirs, name)
        assert issubclass(mine, std)
        for method in vars(std):
            if not method.startswith("_") or method in ("__enter__", "__exit__"):
                assert hasattr(mine, method), (name, method)
        for method in ("wait", "notify", "wait_for", "get_value", "is_set", "abort", "reset"):
            if hasattr(std, method):
                wanted = list(inspect.signature(getattr(std, method)).parameters)
                assert list(inspect.signature(getattr(mine, method)).parameters) == wanted
    assert str(inspect.signature(ours.Lock.acquire)) == "(self, /, block=True, timeout=None)"
    assert issubclass(ours.BoundedSemaphore, ours.Semaphore)
    assert all(issubclass(getattr(ours, name), ours.SemLock) for name in NAMES[:4])


def test_who_has_it(either: Any) -> None:
    lock, rlock = either.Lock(), either.RLock()
    assert repr(lock) == "<Lock(owner=None)>"
    assert repr(rlock) == "<RLock(None, 0)>"
    with lock, rlock, rlock:
        assert repr(lock) == "<Lock(owner=MainProcess)>"
        assert repr(rlock) == "<RLock(MainProcess, 2)>"
        assert (lock._semlock._is_mine(), lock._semlock._count(), lock._semlock._is_zero()) == (True, 1, True)
        assert rlock._semlock._count() == 2
        assert in_thread(lambda: repr(lock)) == ("answers", "<Lock(owner=SomeOtherThread)>")
        assert in_thread(lambda: repr(rlock)) == ("answers", "<RLock(SomeOtherThread, nonzero)>")
        assert in_thread(lambda: lock.acquire(False)) == ("answers", False)
        assert in_thread(lambda: rlock.acquire(timeout=0.01)) == ("answers", False)
    assert lock._semlock._get_value() == rlock._semlock._get_value() == 1

    def hold() -> str:
        with lock:
            return repr(lock)

    assert in_thread(hold) == ("answers", "<Lock(owner=MainProcess|Other)>")


def test_owner_in_another_process(ctx: Any) -> None:
    answer = ctx.Queue()
    for lock, text in (
        (ctx.Lock(), "<Lock(owner=SomeOtherProcess)>"),
        (ctx.RLock(), "<RLock(SomeOtherProcess, nonzero)>"),
    ):
        with lock:
            assert lock.locked()
            child = ctx.Process(target=lock_targets.report_owner, args=(lock, answer))
            child.start()
            assert answer.get(timeout=support.DEADLINE) == (text, False, 0, False)
            child.join()
        assert not lock.locked()


def test_excludes(ctx: Any) -> None:
    for lock in (ctx.Lock(), ctx.RLock(), ctx.Semaphore(1), ctx.BoundedSemaphore(1, recover=True)):
        numbers, count = forklift.zeros([1], dtype="int64"), 300
        queue = ctx.Queue()
        queue.put(numbers)
        queue.put(numbers)
        children = [ctx.Process(target=lock_targets.add, args=(lock, queue, count)) for _ in range(2)]
        for child in children:
            child.start()
        lock_targets.add_to(numbers, lock, count)
        for child in children:
            child.join()
            assert child.exitcode == 0
        assert numbers.numpy()[0] == 3 * count


def test_what_is_wrong_is_what_it_was() -> None:
    def wrong(context: Any) -> list[Any]:
        lock, rlock = context.Lock(), context.RLock()
        bounded, most = context.BoundedSemaphore(2), context.Semaphore(2**31 - 1)
        found = [
            outcome(lock.release),
            outcome(rlock.release),
            outcome(bounded.release),
            outcome(most.release),
            outcome(lambda: context.Semaphore(-1)),
            outcome(lambda: context.BoundedSemaphore(-1)),
            outcome(lambda: context.Semaphore(2**31))[0],
            outcome(lambda: context.Semaphore("a")),
            outcome(lambda: context.Semaphore(1.5)),
            outcome(lambda: lock.acquire(True, "soon")),
            outcome(lambda: lock.acquire(1, 2, 3)),
            outcome(lambda: lock.acquire(foo=1)),
            outcome(lambda: pickle.dumps(lock)),
            outcome(lambda: pickle.dumps(context.Event()))[0],
            outcome(lambda: pickle.dumps(context.Barrier(2)))[0],
            outcome(lambda: pickle.dumps(context.Condition())),
        ]
        with rlock:
            found.append(in_thread(rlock.release))
        with lock:
            found += [outcome(lambda t=t: lock.acquire(True, t)) for t in (0, -1, -math.inf, math.nan, 0.01)]
            found.append(outcome(lambda: lock.acquire(False)))
            found.append(outcome(lambda: lock.acquire(block=False, timeout=None)))
        return found

    assert len(both(wrong)) == 24


def test_semaphores_count(either: Any) -> None:
    semaphore, bounded = either.Semaphore(2), either.BoundedSemaphore(1)
    assert repr(semaphore) == "<Semaphore(value=2)>"
    assert repr(bounded) == "<BoundedSemaphore(value=1, maxvalue=1)>"
    assert semaphore.acquire()
    assert semaphore.acquire(True)
    assert not semaphore.acquire(False)
    assert not semaphore.acquire(timeout=0.01)
    assert semaphore.get_value() == 0
    assert semaphore._semlock._is_mine()
    semaphore.release()
    semaphore.release()
    semaphore.release()  # more than it began with
    assert semaphore.get_value() == 3
    assert semaphore._semlock._count() == -1
    with bounded as acquired:
        assert acquired is True
        assert bounded.get_value() == 0
    assert (bounded._semlock.kind, bounded._semlock.maxvalue) == (1, 1)
    assert either.BoundedSemaphore(0).acquire(False) is False


def test_longer_than_time_itself() -> None:
    """The standard library's sem_timedwait refuses these; they are time-outs that never come."""
    lock = forklift.multiprocessing.Lock()
    for timeout in (math.inf, 1e300, 1e18):
        lock.acquire()
        threading.Timer(0.02, lock.release).start()
        assert lock.acquire(timeout=timeout)
        lock.release()


def test_many_locks() -> None:
    locks = [forklift.multiprocessing.Lock() for _ in range(100_000)]
    assert len({lock._semlock.handle for lock in locks}) == 100_000
    for lock in locks[::1000]:
        with lock:
            assert lock.locked()


def test_never_made() -> None:
    class Careless(forklift.multiprocessing.synchronize.Lock):
        def __init__(self) -> None:
            pass

    for action in (Careless().acquire, Careless().release, Careless().locked):
        with pytest.raises(ValueError, match="never made"):
            action()


NEWER = sys.version_info >= (3, 11, 4)  # where the standard library has this error


@pytest.mark.skipif(not NEWER, reason="the standard library tries it")
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
@pytest.mark.parametrize("name", [*NAMES, "Value", "Array", "Queue", "SimpleQueue"])
def test_what_a_fork_context_made_is_for_forks(either: Any, method: str, name: str) -> None:
    arguments = {"Barrier": (1,), "Value": ("i", 1), "Array": ("i", 1)}.get(name, ())
    made = getattr(either, name)(*arguments)
    error = pytest.raises(RuntimeError, match="A SemLock created in a fork context is being shared with")
    with error as caught:
        either.get_context(method).Process(target=print, args=(made,)).start()
    # Its frames refer to the object.
    traceback.clear_frames(caught.tb)
    child = either.Process(target=lambda given: given, args=(made,))
    child.start()
    child.join()
    assert child.exitcode == 0


@pytest.mark.parametrize("name", NAMES)
def test_what_another_context_made_goes_anywhere(name: str) -> None:
    mp = forklift.multiprocessing
    made = getattr(mp.get_context("spawn"), name)(*((1,) if name == "Barrier" else ()))
    for method in mp.get_all_start_methods():
        child = mp.get_context(method).Process(target=lock_targets.pass_on, args=(made,))
        child.start()
        child.join()
        assert child.exitcode == 0, method


# --- signals


class Alarm(Exception):
    pass


@pytest.fixture
def alarm() -> Iterator[Any]:
    def handler(_number: int, _frame: Any) -> None:
        raise Alarm

    before = signal.signal(signal.SIGALRM, handler)
    yield lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def test_handlers_that_raise_leave_nothing_taken(either: Any, alarm: Any) -> None:
    lock, semaphore, event = either.Lock(), either.Semaphore(0), either.Event()
    condition, barrier = either.Condition(), either.Barrier(2)
    lock.acquire()
    condition.acquire()
    for wait in (lock.acquire, semaphore.acquire, event.wait, condition.wait, barrier.wait):
        start = time.monotonic()
        alarm(0.05)
        with pytest.raises(Alarm):
            wait()
        assert time.monotonic() - start < 2
    condition.notify()
    condition.release()
    lock.release()
    semaphore.release()
    assert lock.acquire(False)
    assert semaphore.acquire(False)
    assert not event.is_set()
    assert not barrier.broken
    assert barrier.n_waiting == 0
    other = threading.Thread(target=barrier.wait, args=(support.DEADLINE,))
    other.start()
    barrier.wait(support.DEADLINE)
    other.join()


def _work_inside(lock: Any, begun: Any, enough: Any) -> None:
    while not enough.is_set():
        with lock:
            begun.set()
            time.sleep(0.002)


@pytest.mark.parametrize("kind", ["Lock", "RLock", "Semaphore", "Condition"])
def test_who_works_inside_of_a_lock_does_not_shut_others_out(kind: str) -> None:
    """It lets go for an instant only; twenty turns beside it took 16 s."""
    fork = forklift.multiprocessing.get_context("fork")
    lock, begun, enough = getattr(fork, kind)(), fork.Event(), fork.Event()
    hog = fork.Process(target=_work_inside, args=(lock, begun, enough))
    hog.start()
    assert begun.wait(support.DEADLINE)
    start = time.monotonic()
    for _ in range(20):
        with lock:
            pass
        time.sleep(0.001)  # the hog has it by then
    took = time.monotonic() - start
    enough.set()
    hog.join()
    assert took < 2


def test_handlers_that_return_let_it_wait(either: Any) -> None:
    seen = []
    before = signal.signal(signal.SIGALRM, lambda *_: seen.append(time.monotonic()))
    lock = either.Lock()
    lock.acquire()
    start = time.monotonic()
    signal.setitimer(signal.ITIMER_REAL, 0.03)
    assert not lock.acquire(timeout=0.3)
    assert time.monotonic() - start >= 0.29
    assert seen
    assert seen[0] - start < 0.2
    signal.signal(signal.SIGALRM, before)

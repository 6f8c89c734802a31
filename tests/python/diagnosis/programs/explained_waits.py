"""Prints the notes of waits whose time is over: for results, at barriers, of a topic, for some messages."""

import concurrent.futures
import contextlib
import threading

import forklift
import forklift.multiprocessing as mp

TIME = 0.3


def wait_for(end):
    end.wait()


def meet(barrier):
    with contextlib.suppress(threading.BrokenBarrierError):
        barrier.wait()


def keep(end):
    global kept
    kept = end


def wait_kept(_=None):
    kept.wait()


def tell(name, call):
    try:
        call()
    except Exception as error:
        print(f"{name}: {type(error).__name__} {getattr(error, '__notes__', [])}", flush=True)


if __name__ == "__main__":
    end = mp.Event()
    with mp.Pool(2, keep, (end,)) as pool:
        result = pool.apply_async(wait_kept)
        tell("get", lambda: result.get(TIME))
        turns = pool.imap(wait_kept, [1])
        tell("next", lambda: turns.next(TIME))
        end.set()
        result.get()
        turns.next()
        end.clear()
    with forklift.ProcessPoolExecutor(1, initializer=keep, initargs=(end,)) as executor:
        future = executor.submit(wait_kept)
        tell("result", lambda: future.result(TIME))
        tell("exception", lambda: future.exception(TIME))
        tell("map", lambda: list(executor.map(wait_kept, [1], timeout=TIME)))
        tell("as_completed", lambda: list(concurrent.futures.as_completed([future], TIME)))
        end.set()
        future.result()
        end.clear()
    barrier = mp.Barrier(2)
    child = mp.Process(target=wait_for, args=(end,), name="late", daemon=True)
    there = mp.Barrier(3)
    other = mp.Process(target=meet, args=(there,), name="early", daemon=True)
    child.start()
    other.start()
    tell("barrier", lambda: barrier.wait(TIME))
    while there.n_waiting < 1:
        pass
    tell("second", lambda: there.wait(TIME))
    news = forklift.Broadcast()
    with news.subscribe() as reader:
        tell("subscription", lambda: reader.get(TIME))
        tell("at once", lambda: reader.get(0))
    queue = mp.Queue()
    tell("get_many", lambda: queue.get_many(3, timeout=TIME))
    end.set()
    child.join()
    other.join()

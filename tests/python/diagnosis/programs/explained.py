"""Prints the notes of queue.Empty and queue.Full."""

import queue

import forklift.multiprocessing as mp


def hold(lock, held, end):
    with lock:
        held.set()
        end.get()


if __name__ == "__main__":
    lock, held, end = mp.Lock(), mp.Event(), mp.Queue()
    full, results = mp.Queue(1), mp.Queue()
    holder = mp.Process(target=hold, args=(lock, held, end))
    holder.start()
    held.wait()
    full.put(0)
    for call in (
        lambda: results.get(timeout=0.3),
        lambda: full.put(1, timeout=0.3),
        lambda: results.get(block=False),
    ):
        try:
            call()
        except (queue.Empty, queue.Full) as error:
            print(type(error).__name__, getattr(error, "__notes__", []))
    end.put(None)
    holder.join()

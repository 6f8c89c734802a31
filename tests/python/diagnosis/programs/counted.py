"""Does known amounts of everything, says "ready", and puts as many more as each line on stdin says."""

import sys

import forklift
import forklift.multiprocessing as mp
import numpy as np


def identity(value):
    return value


def hold(lock, held, end):
    with lock:
        held.set()
        end.wait()


if __name__ == "__main__":
    numbers, lock, held, end = mp.Queue(2000), mp.Lock(), mp.Event(), mp.Event()
    forklift.set_label(numbers, "numbers")
    forklift.set_label(lock, "door")
    topic = forklift.Broadcast(capacity=64)
    forklift.set_label(topic, "news")
    tensor = forklift.zeros((1024, 1024), dtype="float64")
    holder = mp.Process(target=hold, args=(lock, held, end), daemon=True)
    holder.start()
    held.wait()
    for i in range(1000):
        numbers.put(i)
    for _ in range(400):
        numbers.get()
    for i in range(50):
        topic.put(i)
    with mp.Pool(3) as pool:
        assert pool.map(identity, range(100), chunksize=10) == list(range(100))
        print("ready", holder.pid, flush=True)
        for line in sys.stdin:
            for i in range(int(line)):
                numbers.put(i)
            print("done", flush=True)
        end.set()
    assert np.asarray(tensor).sum() == 0

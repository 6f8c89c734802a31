"""A received array is private: processes forked later do not see its changes, nor its owner theirs."""

import forklift.multiprocessing as mp
import numpy as np


def send(queue):
    queue.put(np.zeros(1_000_000, dtype=np.float32))


def write(array, seen):
    array[:] = 2.0  # the child's own from the fork on
    seen.put(float(array.mean()))


if __name__ == "__main__":
    context = mp.get_context("fork")
    queue, seen = context.Queue(), context.Queue()
    sender = context.Process(target=send, args=(queue,))
    sender.start()
    array = queue.get()
    sender.join()
    array[:] = 1.0
    child = context.Process(target=write, args=(array, seen))
    child.start()
    assert seen.get() == 2.0
    child.join()
    assert array.mean() == 1.0
    print("the child wrote 2.0 everywhere, the parent still has", array.mean())

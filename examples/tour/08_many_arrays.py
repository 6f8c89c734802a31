"""2,000 arrays of 64 KB, held at once by a process that may open 64 descriptors."""

import resource

import forklift.multiprocessing as mp
import numpy as np

COUNT = 2000


def hold(queue, report):
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    held = [queue.get() for _ in range(COUNT)]
    report.put(sum(int(array[-1]) for array in held))


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    queue, report = mp.Queue(), mp.Queue()
    holder = mp.Process(target=hold, args=(queue, report))
    holder.start()
    for number in range(COUNT):
        queue.put(np.full(16_384, number, dtype=np.float32))
    assert report.get() == sum(range(COUNT))
    holder.join()
    print(f"{COUNT} arrays of 64 KB were held at once, with room for 64 descriptors")

"""No stuck program: a pool under load, whose workers are killed at random. It ends by itself."""

import os
import random
import signal
import sys
import time

import forklift.multiprocessing as mp


def work(value):
    time.sleep(0.002)
    return value, os.getpid()


if __name__ == "__main__":
    end = time.monotonic() + float(sys.argv[1])
    kills = 0
    with mp.Pool(4, retries=5) as pool:
        while time.monotonic() < end:
            found = pool.map(work, range(200), chunksize=4)
            assert [value for value, _ in found] == list(range(200))
            os.kill(random.choice(found)[1], signal.SIGKILL)
            kills += 1
    print(kills)

"""A process is stopped while it holds a lock."""

import os
import signal

import forklift.multiprocessing as mp


def hold(lock, held):
    with lock:
        held.set()
        os.kill(os.getpid(), signal.SIGSTOP)


if __name__ == "__main__":
    lock, held = mp.Lock(), mp.Event()
    holder = mp.Process(target=hold, args=(lock, held))
    holder.start()
    held.wait()
    with lock:
        print("never")

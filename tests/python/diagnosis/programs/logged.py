"""Logs to the file of its arguments: a child that ends, a child of it, and one that is killed with a lock."""

import os
import signal
import sys

import forklift
import forklift.multiprocessing as mp


def grandchild():
    pass


def end_well():
    inner = mp.Process(target=grandchild, name="grandchild")
    inner.start()
    inner.join()
    sys.exit(3)


def die_with(lock, held):
    lock.acquire()
    held.set()
    signal.pause()


if __name__ == "__main__":
    forklift.log_to(sys.argv[1])
    mp.set_start_method(sys.argv[2])
    lock, held = mp.Lock(), mp.Event()
    forklift.set_label(lock, "door")
    good = mp.Process(target=end_well, name="good")
    good.start()
    good.join()
    bad = mp.Process(target=die_with, args=(lock, held), name="bad")
    bad.start()
    held.wait()
    os.kill(bad.pid, signal.SIGKILL)
    bad.join()
    lock.acquire()
    forklift.log_to(None)
    mp.Process(target=grandchild, name="silent").start()
    print(os.getpid(), good.pid, bad.pid)

"""A worker is killed with a task in its hands, and its parent waits for the result."""

import os
import signal

import forklift.multiprocessing as mp


def work(tasks, results):
    for task in iter(tasks.get, None):
        if task == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        results.put(task * task)


if __name__ == "__main__":
    tasks, results = mp.Queue(), mp.Queue()
    workers = [mp.Process(target=work, args=(tasks, results)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for task in range(10):
        tasks.put(task)
    print([results.get() for _ in range(10)])

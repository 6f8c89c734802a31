"""A worker of a queue that delivers at least once takes two tasks, and waits for a third one."""

import forklift.multiprocessing as mp


def work(tasks):
    while True:
        tasks.get()


if __name__ == "__main__":
    tasks = mp.JoinableQueue(redeliver=True)
    mp.Process(target=work, args=(tasks,), daemon=True).start()
    for task in range(2):
        tasks.put(task)
    tasks.join()

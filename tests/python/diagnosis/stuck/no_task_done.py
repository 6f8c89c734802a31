"""A worker forgets task_done() for every third task."""

import forklift.multiprocessing as mp


def work(tasks):
    while True:
        task = tasks.get()
        if task % 3 != 0:
            tasks.task_done()


if __name__ == "__main__":
    tasks = mp.JoinableQueue()
    mp.Process(target=work, args=(tasks,), daemon=True).start()
    for task in range(9):
        tasks.put(task)
    tasks.join()

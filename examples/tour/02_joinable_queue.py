"""A joinable queue: three workers, and a parent who waits until everything is done."""

import forklift.multiprocessing as mp
import numpy as np


def work(tasks, results):
    while True:
        number, matrix = tasks.get()
        results.put((number, np.linalg.svd(matrix, compute_uv=False)[0]))
        tasks.task_done()


if __name__ == "__main__":
    tasks, results = mp.JoinableQueue(), mp.Queue()
    for _ in range(3):
        mp.Process(target=work, args=(tasks, results), daemon=True).start()
    rng = np.random.default_rng(0)
    matrices = [rng.normal(size=(60, 60)) for _ in range(12)]
    for task in enumerate(matrices):
        tasks.put(task)
    tasks.join()  # returns when task_done() was called for each
    largest = dict(results.get() for _ in matrices)
    assert all(np.isclose(largest[i], np.linalg.norm(m, 2)) for i, m in enumerate(matrices))
    print(f"12 matrices, largest singular values from {min(largest.values()):.2f}", end=" ")
    print(f"to {max(largest.values()):.2f}")

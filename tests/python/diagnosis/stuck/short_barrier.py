"""A barrier is made for the workers and the parent, and the parent does not come."""

import forklift.multiprocessing as mp


def work(barrier):
    barrier.wait()


if __name__ == "__main__":
    barrier = mp.Barrier(3)
    workers = [mp.Process(target=work, args=(barrier,)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()

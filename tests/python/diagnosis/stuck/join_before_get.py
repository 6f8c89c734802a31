"""A parent joins its child before it takes what the child puts."""

import forklift.multiprocessing as mp


def write(results):
    for i in range(100):
        results.put(i)


if __name__ == "__main__":
    results = mp.Queue(10)
    writer = mp.Process(target=write, args=(results,))
    writer.start()
    writer.join()
    print(sum(results.get() for _ in range(100)))

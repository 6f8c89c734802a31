"""Each worker of a pool waits for something that a later task of the same pool would bring."""

import forklift.multiprocessing as mp


def begin(shared):
    global found
    found = shared


def take(_):
    return found.get()


def bring(value):
    found.put(value)


if __name__ == "__main__":
    shared = mp.Queue()
    with mp.Pool(2, initializer=begin, initargs=(shared,)) as pool:
        takers = [pool.apply_async(take, (i,)) for i in range(2)]
        pool.map(bring, range(2))
        print([taker.get() for taker in takers])

"""concurrent.futures.ProcessPoolExecutor: arrays, errors, initializers, chunks."""

import concurrent.futures
import multiprocessing

import numpy as np

base = 0


def begin(value):
    global base
    base = value


def work(array):
    return array.sum() + base, array[::-1]


def fail(number):
    raise ValueError(number)


def main():
    for method in ("fork", "spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        with concurrent.futures.ProcessPoolExecutor(
            2, mp_context=context, initializer=begin, initargs=(5,)
        ) as executor:
            for total, back in executor.map(work, [np.arange(40_000.0) + i for i in range(6)]):
                print(method, total, back[:3])
            print(list(executor.map(abs, range(-5, 5), chunksize=3)))
            try:
                executor.submit(fail, 7).result()
            except ValueError as error:
                print(repr(error), type(error.__cause__).__name__)


if __name__ == "__main__":
    main()

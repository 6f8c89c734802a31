"""A child process computes (after the overview of mindspore.multiprocessing)."""

import forklift.multiprocessing as multiprocessing
import numpy as np
from forklift import tensor as Tensor


def log(x):
    return Tensor(np.log(x))


def child_process():
    y = log(Tensor(2.0, "float32"))
    print("log(Tensor(2.0))=", y)


if __name__ == "__main__":
    p = multiprocessing.Process(target=child_process)
    p.start()
    p.join()

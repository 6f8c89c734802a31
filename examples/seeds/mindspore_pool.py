"""A pool maps a function over tensors (after the overview of mindspore.multiprocessing)."""

import forklift.multiprocessing as multiprocessing
import numpy as np
from forklift import tensor as Tensor


def log(x):
    return Tensor(np.log(x))


def child_process(x):
    return log(x)


if __name__ == "__main__":
    with multiprocessing.Pool(processes=2) as pool:
        inputs = [Tensor(2.0, "float32"), Tensor(2.0, "float32")]
        outputs = pool.map(child_process, inputs)
        print("log(Tensor(2.0))=", outputs)

"""A pool maps a function over tensors (after the overview of mindspore.multiprocessing)."""

import forklift.multiprocessing as multiprocessing
from forklift import Tensor, ops


def child_process(x):
    return ops.log(x)


if __name__ == "__main__":
    with multiprocessing.Pool(processes=2) as pool:
        inputs = [Tensor(2.0), Tensor(2.0)]
        outputs = pool.map(child_process, inputs)
        print("ops.log(Tensor(2.0))=", outputs)

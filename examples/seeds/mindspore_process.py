"""A child process computes (after the overview of mindspore.multiprocessing)."""

import forklift.multiprocessing as multiprocessing
from forklift import Tensor, ops


def child_process():
    y = ops.log(Tensor(2.0))
    print("ops.log(Tensor(2.0))=", y)


if __name__ == "__main__":
    p = multiprocessing.Process(target=child_process)
    p.start()
    p.join()

"""A spawned child computes, its parent only afterwards (after the overview of mindspore.multiprocessing)."""

import forklift.multiprocessing as multiprocessing
import numpy as np
from forklift import tensor as Tensor


def log(x):
    return Tensor(np.log(x))


def child_process(q):
    y = log(Tensor(2.0, "float32"))
    q.put(y)
    return


if __name__ == "__main__":
    multiprocessing.set_start_method("spawn", force=True)
    q = multiprocessing.Queue()
    p = multiprocessing.Process(target=child_process, args=(q,))
    p.start()
    print("child process:log(Tensor(2.0))=", q.get())
    p.join()
    print("parent process:log(Tensor(2.0))=", log(Tensor(2.0, "float32")))

"""The parent computes, then forks a child that computes (after the overview of mindspore.multiprocessing)."""

import forklift.multiprocessing as multiprocessing
from forklift import Tensor, ops


def child_process(q):
    y = ops.log(Tensor(2.0))
    q.put(y)
    return


if __name__ == "__main__":
    multiprocessing.set_start_method("fork", force=True)
    print("parent process:ops.log(Tensor(2.0))=", ops.log(Tensor(2.0)))
    q = multiprocessing.Queue()
    p = multiprocessing.Process(target=child_process, args=(q,))
    p.start()
    print("child process:ops.log(Tensor(2.0))=", q.get())
    p.join()

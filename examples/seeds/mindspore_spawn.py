"""A spawned child computes, its parent only afterwards (after the overview of mindspore.multiprocessing)."""

import forklift.multiprocessing as multiprocessing
import torch


def child_process(q):
    y = torch.log(torch.tensor(2.0))
    q.put(y.numpy())


if __name__ == "__main__":
    multiprocessing.set_start_method("spawn", force=True)
    q = multiprocessing.Queue()
    p = multiprocessing.Process(target=child_process, args=(q,))
    p.start()
    print("child process: log(tensor(2.0)) =", q.get())
    p.join()
    print("parent process: log(tensor(2.0)) =", torch.log(torch.tensor(2.0)))
